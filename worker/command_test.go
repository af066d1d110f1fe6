package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarm-io/swarm-operator/worker"
)

func TestEachJobHasItsProgram(t *testing.T) {
	t.Setenv("SWARM_JOURNAL", "/secret")
	t.Setenv("OF_THE_CONTAINER", "yes")
	w := startScript(t,
		`echo "$SWARM_JOB of $SWARM_WORKER, $OF_THE_CONTAINER, $SWARM_JOURNAL."; echo "oops $SWARM_JOB" >&2; echo $$ >$1/$SWARM_JOB; exec sleep 1000`)
	w.publish(t, 1, "a", "b")
	w.awaitOutput(t, "[a] a of swarm-worker-0, yes, .\n")
	w.awaitOutput(t, "[b] b of swarm-worker-0, yes, .\n")
	w.awaitOutput(t, "[a] oops a\n")
	a, b := w.awaitPIDs(t, "a")[0], w.awaitPIDs(t, "b")[0]
	w.publish(t, 2, "b")
	w.awaitVersion(t, 2)
	if isAlive(a) || !isAlive(b) {
		t.Errorf("a lives: %t, b lives: %t", isAlive(a), isAlive(b))
	}
	must(t, w.stopWorker())
	if isAlive(b) {
		t.Error("b outlives its worker")
	}
	if strings.Contains(string(w.output.Contents()), "theirs") {
		t.Error("a job of another worker ran")
	}
}

// When the new list is acknowledged, nothing of the job is left, even if it ignores signals.
func TestNothingOutlivesAStop(t *testing.T) {
	for name, text := range map[string]string{
		"a program that heeds SIGTERM":     `trap 'echo bye; exit 0' TERM; echo $$ >$1/pids; while :; do sleep 1000 & wait; done`,
		"a program that ignores it":        `trap '' TERM; echo $$ >$1/pids; while :; do sleep 1000; done`,
		"children that ignore it":          `bash -c "trap '' TERM; sleep 1000; sleep 1000" & echo $! $$ >$1/pids; wait`,
		"children that are left behind":    `(trap '' TERM HUP; sleep 1000) & echo $! >$1/pids; sleep 1000`,
		"a program that ended in between":  `echo $$ >$1/pids`,
		"a program that does not end well": `trap 'exit 3' TERM; echo $$ >$1/pids; while :; do sleep 1000 & wait; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startScript(t, text)
			w.publish(t, 1, "a")
			pids := w.awaitPIDs(t, "pids")
			w.publish(t, 2)
			w.awaitVersion(t, 2)
			for _, pid := range pids {
				if isAlive(pid) {
					t.Errorf("process %d lives on", pid)
				}
			}
		})
	}
}

func TestAProgramThatEndsIsStartedAgain(t *testing.T) {
	w := startScript(t,
		`test -e $1/once && echo again && exec sleep 1000; touch $1/once; sleep 1000 & echo $! >$1/pids; printf 'no end'; exit 7`)
	w.publish(t, 1, "a")
	child := w.awaitPIDs(t, "pids")[0]
	w.awaitOutput(t, "[a] no end\n") // written when the program's group is gone
	if isAlive(child) {
		t.Error("a child of the first run is there in the second")
	}
	w.awaitOutput(t, "[a] again\n")
	must(t, w.stopWorker())
}

func TestAProgramThatDoesNotExist(t *testing.T) {
	w := newTestWorker(t)
	jobs, err := worker.Command(w.config, w.output, w.output, "/nonexistent/program")
	must(t, err)
	w.start(t, jobs)
	w.publish(t, 1, "a")
	w.awaitVersion(t, 1)
	w.publish(t, 2)
	w.awaitVersion(t, 2) // it waits for its restart, which is not awaited
	if _, err := worker.Command(w.config, w.output, w.output); err == nil {
		t.Error("a command of no words")
	}
}

// A stop is tried again after a failure elsewhere, and a list may come back to a job.
func TestStopOfAProgramThatHasStoppedIsNoError(t *testing.T) {
	w := newTestWorker(t)
	t.Cleanup(func() { _ = w.config.Listener.Close() })
	jobs, err := worker.Command(w.config, w.output, w.output, "bash", "-c", `echo $$ >$1/pids; exec sleep 1000`, "bash", w.dir())
	must(t, err)
	must(t, jobs.Stop(t.Context(), "a"))
	for range 2 {
		must(t, jobs.Start(t.Context(), "a"))
		pid := w.awaitPIDs(t, "pids")[0]
		must(t, jobs.Stop(t.Context(), "a"))
		must(t, jobs.Stop(t.Context(), "a"))
		if isAlive(pid) {
			t.Errorf("process %d lives on", pid)
		}
		must(t, os.Remove(filepath.Join(w.dir(), "pids")))
	}
}

func TestLinesStayWhole(t *testing.T) {
	const lines = 200
	w := startScript(t,
		`for i in $(seq 200); do echo "$SWARM_JOB $SWARM_JOB $i"; done; head -c 40000 /dev/zero | tr '\0' x; echo; echo end; exec sleep 1000`)
	w.publish(t, 1, "a", "b", "c")
	for _, job := range []string{"a", "b", "c"} {
		w.awaitOutput(t, "["+job+"] end\n")
	}
	counts := map[string]int{}
	for text := range strings.Lines(string(w.output.Contents())) {
		label, rest, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		job := strings.Trim(label, "[]")
		switch {
		case strings.HasPrefix(rest, job+" "+job+" "):
			counts[job+" line"]++
		case strings.Trim(rest, "x") == "":
			counts[job+" long"] += len(rest)
		case rest != "end":
			t.Errorf("line %.100q", text)
		}
	}
	for _, job := range []string{"a", "b", "c"} {
		if counts[job+" line"] != lines || counts[job+" long"] != 40000 {
			t.Errorf("of %s: %d lines and %d letters", job, counts[job+" line"], counts[job+" long"])
		}
	}
}

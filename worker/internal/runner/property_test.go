package runner

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
	"github.com/swarm-io/swarm-operator/worker/internal/filewatch"
)

// A step shows a file, and lets time pass.
type step struct {
	kind            string
	jobs            string
	minVersionAhead int64 // ahead of the file
	pause           time.Duration
}

var (
	jobNames = []string{"a", "b", "c", "d", "e"}
	delays   = []time.Duration{0, 0, time.Millisecond, time.Second, 20 * time.Second}
)

func drawSteps(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind: rapid.SampledFrom([]string{"next", "next", "next", "broken", "gone", "older"}).Draw(t, "kind"),
			jobs: strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(jobNames), 0, len(jobNames), rapid.ID[string]).Draw(t, "jobs"),
				" "),
			minVersionAhead: rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(t, "floor"),
			pause:           rapid.SampledFrom(delays).Draw(t, "pause"),
		}
	}), 1, 12).Draw(t, "steps")
}

// For any sequence of files, jobs that are slow or fail, and any timing: no invariant is violated (see Started and Acknowledge), and in the
// end exactly the jobs of the last valid file run.
func TestAnySequenceOfFiles(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newTestRunner()
		for _, name := range jobNames {
			w.startTakes[name] = rapid.SampledFrom(delays).Draw(rt, "start takes")
			w.stopTakes[name] = rapid.SampledFrom(delays).Draw(rt, "stop takes")
			w.startFails[name] = rapid.IntRange(0, 3).Draw(rt, "start fails")
			w.stopFails[name] = rapid.IntRange(0, 3).Draw(rt, "stop fails")
		}
		sequence, leaveEarly := drawSteps(rt), rapid.Bool().Draw(rt, "leave early")
		var wrong string
		synctest.Test(t, func(*testing.T) { wrong = w.runSteps(sequence, leaveEarly) })
		if wrong != "" {
			rt.Fatalf("%s\njournal: %s", wrong, strings.Join(w.log, ", "))
		}
	})
}

// runSteps returns what went wrong. In a bubble an hour passes at once.
func (w *testRunner) runSteps(sequence []step, leaveEarly bool) string {
	w.files, w.done = make(chan []filewatch.Snapshot), make(chan error, 1) // channels belong to the bubble they were made in
	w.run()
	version, minVersion, lastJobs := int64(0), int64(0), ""
	for _, s := range sequence {
		switch s.kind {
		case "next":
			version++
			minVersion, lastJobs = max(minVersion, version+s.minVersionAhead-1), s.jobs
			w.publishFiles(version, s.jobs, newAnnotation(minVersion))
		case "older":
			if version > 1 {
				w.files <- []filewatch.Snapshot{newFile(version-1, s.jobs), newAnnotation(minVersion)}
			}
		case "broken":
			w.files <- []filewatch.Snapshot{{Content: []byte("version: 3\nworkloads: [")}, newAnnotation(minVersion)}
		case "gone":
			w.files <- []filewatch.Snapshot{missingFile, missingFile}
		}
		time.Sleep(s.pause)
	}
	if !leaveEarly {
		time.Sleep(time.Hour)
		synctest.Wait()
		w.checkFinalState(version, minVersion, lastJobs)
		if version < minVersion {
			w.publishFiles(minVersion, lastJobs, newAnnotation(minVersion)) // the file catches up
			time.Sleep(time.Hour)
			synctest.Wait()
			w.checkFinalState(minVersion, minVersion, lastJobs)
		}
	}
	wrong, _ := w.stop() // stops may fail to the last, and then it reports that
	return wrong
}

func (w *testRunner) checkFinalState(version, minVersion int64, jobs string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.config != version {
		w.recordProblem("acknowledged %d, the last good file is %d", w.config, version)
	}
	for _, job := range jobNames {
		wanted, runs := strings.Contains(jobs, job), w.running[job] != nil
		if runs && !wanted || wanted && !runs && version >= minVersion {
			w.recordProblem("%s: runs %t, wanted %t by %q, version %d, floor %d", job, runs, wanted, jobs, version, minVersion)
		}
		if runs && w.running[job].Err() != nil {
			w.recordProblem("%s runs with a context that has ended", job)
		}
	}
}

func newAnnotation(minVersion int64) filewatch.Snapshot {
	if minVersion == 0 {
		return filewatch.Snapshot{}
	}
	return filewatch.Snapshot{Content: strconv.AppendInt(nil, minVersion, 10)}
}

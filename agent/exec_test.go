package agent_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

const (
	succeeded  = linkv1.Outcome_OUTCOME_SUCCEEDED
	failed     = linkv1.Outcome_OUTCOME_FAILED
	retry      = linkv1.Outcome_OUTCOME_RETRY
	badInput   = linkv1.Outcome_OUTCOME_BAD_INPUT
	cancelled  = linkv1.Outcome_OUTCOME_CANCELLED
	handedBack = linkv1.Outcome_OUTCOME_HANDED_BACK
	declined   = linkv1.Outcome_OUTCOME_DECLINED
)

func TestExitAndOutputBecomeTheResult(t *testing.T) {
	for _, c := range []struct {
		name, script string
		outcome      linkv1.Outcome
		value        string
		reason       string
		message      string // a part of it
	}{
		{"JSON is kept", `cat`, succeeded, `{"q":[1,2]}`, "", ""},
		{"text becomes a string", `echo 'it is "done"'; echo ok`, succeeded, `"it is \"done\"\nok"`, "", ""},
		{"nothing is no result", `cat >/dev/null`, succeeded, ``, "", ""},
		{"what is no text is made one", `printf '\xff<'`, succeeded, `"` + "\uFFFD" + `<"`, "", ""},
		{"4 KiB are kept", `printf '%4094s' x | tr ' ' x`, succeeded, `"` + strings.Repeat("x", 4094) + `"`, "", ""},
		{"more is an error", `printf '%4095s' x | tr ' ' x`, failed, ``, "ResultTooLarge", "4096 bytes"},
		{"far more is an error", `head -c 3000000 /dev/zero | tr '\0' x`, failed, ``, "ResultTooLarge", "4 KiB"},
		{"75 asks for another try", `echo later >&2; exit 75`, retry, ``, "RetryRequested", "later"},
		{"65 is bad input", `echo no such column >&2; exit 65`, badInput, ``, "BadInput", "no such column"},
		{"anything else fails", `echo partial; echo one >&2; echo two >&2; exit 3`, failed, ``, "CommandFailed", "exit status 3: one\ntwo"},
		{"only the last lines count", `seq 1 1000 >&2; exit 1`, failed, ``, "CommandFailed", ": 991\n"},
		{"a signal is named", `kill -SEGV $$`, failed, ``, "CommandFailed", "segmentation fault"},
		{"what is not read does no harm", `exec <&-; echo 1`, succeeded, `1`, "", ""},
		{"a task without items has no item", `echo "${SWARM_ITEM-none}"`, succeeded, `"none"`, "", ""},
		{"a process left behind holds nothing up", `sleep 1000 & echo 2`, succeeded, `2`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			result := startScript(t, c.script).runTask(t, ` {"q": [1, 2]} `)
			if result.GetOutcome() != c.outcome || string(result.GetValue()) != c.value || result.GetReason() != c.reason {
				t.Errorf("got %v %q %s %q", result.GetOutcome(), result.GetValue(), result.GetReason(), result.GetMessage())
			}
			if !strings.Contains(result.GetMessage(), c.message) || len(result.GetMessage()) > 4096 {
				t.Errorf("message %q does not say %q", result.GetMessage(), c.message)
			}
		})
	}
}

func TestCommandThatDoesNotExist(t *testing.T) {
	a := newTestAgent(t)
	handler, err := agent.Command(a.config.RuntimeDir, "/bin/nonsense")
	if err != nil {
		t.Fatal(err)
	}
	a.start(t, handler)
	a.AwaitCredit(t, 2)
	result := a.runTask(t, "{}")
	if result.GetOutcome() != failed || result.GetReason() != "CommandNotStarted" {
		t.Errorf("got %v", result)
	}
	for _, part := range []string{"start /bin/nonsense", "no such file", "image"} {
		if !strings.Contains(result.GetMessage(), part) {
			t.Errorf("message %q does not say %q", result.GetMessage(), part)
		}
	}
}

func TestProgramGetsTheTaskInItsEnvironment(t *testing.T) {
	t.Setenv("SWARM_LINK_TOKEN_FILE", "/secret")
	t.Setenv("OF_THE_CONTAINER", "yes")
	a := startScript(t, `env | grep -E '^(SWARM|OF_)' | grep -v PROGRESS | sort`)
	a.send(t, linktest.Peers("research-coder-1", "research-analyst-0"))
	attempt := linktest.Attempt("t", 1)
	attempt.Item, attempt.Attempt = proto.Int32(41), 3
	a.send(t, linktest.AssignWith(&linkv1.Assign{Attempt: attempt,
		Environment: map[string]string{"OF_THE_TASK": "1", "SWARM_AGENT": "forged"}}))
	got := string(a.AwaitResult(t, 1, 1).GetValue())
	want := `"` + strings.Join([]string{
		"OF_THE_CONTAINER=yes", "OF_THE_TASK=1",
		"SWARM_AGENT=research-coder-0", "SWARM_ATTEMPT=3", "SWARM_IDEMPOTENCY_KEY=uid-of-t-41", "SWARM_ITEM=41",
		"SWARM_PEERS=research-coder-1,research-analyst-0", "SWARM_STATE=" + a.config.StateDir, "SWARM_TASK=t",
	}, `\n`) + `"`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	lines := a.awaitJournal(t, 2)
	if len(lines) != 2 || lines[0].Event != "start" || lines[1].Event != "finish" || *lines[1].Item != 41 || lines[1].Attempt != 3 ||
		lines[1].Epoch != 1 || lines[1].UID != "uid-of-t" || lines[1].Outcome != "succeeded" || lines[1].Time.Before(lines[0].Time) {
		t.Errorf("journal %v", lines)
	}
	a.send(t, linktest.Acknowledge(attempt))
	linktest.Eventually(t, "the acknowledgement is in the journal",
		func() bool { return slices.ContainsFunc(a.readJournal(t), isAcknowledgementOfItem41) })
}

func isAcknowledgementOfItem41(entry journalEntry) bool {
	return isAcknowledgement(entry) && *entry.Item == 41 && entry.Epoch == 1
}

func TestProgressReachesTheOperator(t *testing.T) {
	a := startScript(t, `echo 40 half way >$SWARM_PROGRESS
		echo nonsense >$SWARM_PROGRESS; echo 101 >$SWARM_PROGRESS; echo 20 >$SWARM_PROGRESS
		read -r; until test -e $SWARM_STATE/go; do sleep 0.01; done
		for i in $(seq 41 99); do echo $i; done >>$SWARM_PROGRESS; echo '"end"'`)
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), "{}\n"))
	first := a.AwaitProgress(t, 1, 40)
	if first.GetPercent() != 40 {
		t.Errorf("first %v", first)
	}
	touch(t, a, "go")
	a.AwaitResult(t, 1, 1)
	last, count := int32(0), 0
	for _, event := range a.Events() {
		if progress := event.Message.GetProgress(); progress != nil {
			if progress.GetPercent() < last {
				t.Errorf("progress went back from %d to %d", last, progress.GetPercent())
			}
			last = progress.GetPercent()
			count++
		}
	}
	if last != 99 || count > 10 {
		t.Errorf("last progress %d in %d messages, want 99 in a few", last, count)
	}
}

func TestLimitsOfTimeEndAnAttempt(t *testing.T) {
	const limit = 150 * time.Millisecond
	for name, c := range map[string]struct {
		assign  *linkv1.Assign
		script  string
		outcome linkv1.Outcome
		message string
	}{
		"it runs too long": {&linkv1.Assign{RunTimeout: durationpb.New(limit)}, `sleep 1000`, failed, "ran longer than its limit of 150ms"},
		"it is silent":     {&linkv1.Assign{ProgressTimeout: durationpb.New(limit)}, `sleep 1000`, failed, "no progress for 150ms"},
		"it ignores the request": {&linkv1.Assign{RunTimeout: durationpb.New(limit), Grace: durationpb.New(limit)},
			`trap '' TERM; while :; do sleep 1000; done`, failed, "ran longer"},
		"it speaks often enough": {&linkv1.Assign{ProgressTimeout: durationpb.New(4 * limit)},
			`for i in 1 2 3 4 5 6 7 8; do echo $i >$SWARM_PROGRESS; sleep 0.1; done`, succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startScript(t, c.script)
			c.assign.Attempt = linktest.Attempt("t", 1)
			a.send(t, linktest.AssignWith(c.assign))
			result := a.AwaitResult(t, 1, 1)
			if result.GetOutcome() != c.outcome || !strings.Contains(result.GetMessage(), c.message) {
				t.Errorf("got %v", result)
			}
			if c.outcome == failed && result.GetReason() != "TimedOut" {
				t.Errorf("reason %s", result.GetReason())
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		back   bool
		want   linkv1.Outcome
	}{
		"a program that heeds SIGTERM": {`trap 'exit 0' TERM; echo 1 >$SWARM_PROGRESS; sleep 1000 & wait`, time.Hour, false, cancelled},
		"a program that ignores it": {`trap '' TERM; echo 1 >$SWARM_PROGRESS; while :; do sleep 1000; done`, 100 * time.Millisecond,
			false, cancelled},
		"work that is handed back": {`echo 1 >$SWARM_PROGRESS; sleep 1000`, time.Hour, true, handedBack},
		"work that finishes instead": {`trap 'echo 7; exit 0' TERM; echo 1 >$SWARM_PROGRESS; sleep 1000 & wait`, time.Hour, true,
			succeeded},
		"children that ignore SIGTERM die, too": {`echo 1 >$SWARM_PROGRESS; bash -c "trap '' TERM; sleep 1000; sleep 1000"`,
			100 * time.Millisecond, false, cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startScript(t, c.script)
			attempt := linktest.Attempt("t", 1)
			a.send(t, linktest.Assign(attempt, "{}"))
			a.AwaitProgress(t, 1, 1)
			cancel := linktest.Cancel(attempt, c.grace)
			cancel.GetCancel().HandBack = c.back
			a.send(t, linktest.Cancel(linktest.Attempt("t", 99), 0)) // not what runs
			a.send(t, cancel)
			if got := a.AwaitResult(t, 1, 1); got.GetOutcome() != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// The end of an attempt is the end of all its processes: the next one may start at once.
func TestNothingOutlivesAnAttempt(t *testing.T) {
	a := startScript(t, `(trap '' TERM HUP; sleep 1000) & one=$!; sleep 1000 & echo $one $! >$SWARM_STATE/pids; echo 2`)
	a.runTask(t, "{}")
	for _, text := range a.readWords(t, "pids") {
		if pid, err := strconv.Atoi(text); err != nil || isAlive(pid) {
			t.Errorf("process %q lives on (%v)", text, err)
		}
	}
}

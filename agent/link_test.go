package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// waits runs until a file named like the task's payload appears, and returns it.
const waits = `read -r name; echo $$ >$SWARM_STATE/pid-$name; until test -e $SWARM_STATE/$name; do sleep 0.01; done; echo "\"$name\""`

func touch(t *testing.T, w *world, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.config.StateDir, name), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReconnectTellsWhatRunsAndWhatHasEnded(t *testing.T) {
	w := script(t, waits)
	one, two := linktest.Attempt("one", 1), linktest.Attempt("two", 2)
	w.give(t, linktest.Assign(one, "one\n"))
	w.give(t, linktest.Assign(two, "two\n"))
	w.file(t, "pid-one")
	w.file(t, "pid-two")
	touch(t, w, "one")
	w.AwaitResult(t, 1, 1)

	w.network.Cut() // before any acknowledgement
	hello := w.AwaitHello(t, 2)
	if len(hello.GetRunning()) != 1 || hello.GetRunning()[0].Key() != two.Key() {
		t.Errorf("running: %v, want two", hello.GetRunning())
	}
	if len(hello.GetUnacknowledged()) != 1 || string(hello.GetUnacknowledged()[0].GetValue()) != `"one"` {
		t.Errorf("unacknowledged: %v, want one", hello.GetUnacknowledged())
	}

	w.network.Cut()
	if again := w.AwaitHello(t, 3); len(again.GetUnacknowledged()) != 1 {
		t.Errorf("a result was forgotten without an acknowledgement: %v", again)
	}
	linktest.Eventually(t, "linked", func() bool { return w.Send(coder, linktest.Acknowledge(one)) == nil })
	touch(t, w, "two")
	w.AwaitResult(t, 1, 2) // follows the acknowledgement
	linktest.Eventually(t, "linked", func() bool { return w.Send(coder, linktest.Acknowledge(two)) == nil })
	three := linktest.Attempt("three", 3)
	w.give(t, linktest.Assign(three, "three\n"))
	w.file(t, "pid-three")
	touch(t, w, "three")
	w.AwaitResult(t, 1, 3) // the agent reads in order, so it has read the acknowledgement

	w.network.Cut()
	last := w.AwaitHello(t, 4)
	if len(last.GetRunning()) != 0 || len(last.GetUnacknowledged()) != 1 || last.GetUnacknowledged()[0].GetAttempt().Key() != three.Key() {
		t.Errorf("what was acknowledged is told again: %v", last)
	}
	if lines := w.journal(t, 6); len(lines) != 6 {
		t.Errorf("something ran twice: %v", lines)
	}
}

func TestResultIsSentAgainOnTheSameStream(t *testing.T) {
	t.Parallel()
	w := begin(t)
	clock := w.stopClock()
	w.run(t, w.bash(t, `echo 1`))
	w.AwaitCredit(t, 2)
	w.perform(t, "{}")
	clock.advance(5 * time.Second)
	w.give(t, linktest.Peers()) // which has the agent look at the clock
	w.AwaitResult(t, 2, 1)
	streams := 0
	for _, event := range w.Events() {
		if event.Hello != nil {
			streams++
		}
	}
	if streams != 1 {
		t.Errorf("%d streams", streams)
	}
}

func TestAgentFollowsTheRedirect(t *testing.T) {
	ca := linktest.NewCA(t)
	leader := linktest.Start(t, ca)
	w := begin(t)
	w.config.CAFile = linktest.WriteFile(t, "cas.crt", append(append([]byte{}, ca.PEM...), w.CA.PEM...))
	w.Leader.Follow(leader.Address)
	w.run(t, w.bash(t, `echo 1`))
	leader.AwaitCredit(t, 2)
	if events := w.Events(); len(events) != 0 {
		t.Errorf("the follower's consumer was told %v", events)
	}
	if got := w.MetricSum(t, "swarm_link_messages_total", "redirect"); got != 1 {
		t.Errorf("%d redirects", got)
	}
	// When the leader dies the agent asks the Service again, and stays with the new leader.
	w.Leader.Lead(2)
	leader.Stop()
	w.AwaitCredit(t, 2)
}

// A leader of the past may wake up and welcome agents before it notices.
func TestAgentLeavesALeaderOfThePast(t *testing.T) {
	w := begin(t)
	w.Leader.Lead(5)
	w.run(t, w.bash(t, `echo 1`))
	w.AwaitCredit(t, 2)
	w.Leader.Lead(4)
	w.network.Cut()
	w.AwaitHello(t, 2)
	w.AwaitLeft(t, 2)
	for _, event := range w.Events()[2:] {
		if event.Message.GetCredit() != nil && w.MetricSum(t, "swarm_link_agents", "") > 0 {
			t.Errorf("the agent offered itself to a leader of the past: %v", event)
		}
	}
	w.Leader.Lead(6)
	w.Await(t, 2, "credit under the new term", func(e linktest.Event) bool { return e.Message.GetCredit() != nil })
}

// An operator that cannot check the agent's term asks it to forget the term, for example when the Secret with the key was deleted.
func TestAgentForgetsATermThatTheOperatorDoesNotBelieve(t *testing.T) {
	w := begin(t, func(config *link.Config) { config.Terms = nil })
	w.Leader.Lead(5)
	w.run(t, w.bash(t, `echo 1`))
	w.AwaitCredit(t, 2)
	w.Leader.Lead(4)
	w.network.Cut()
	if hello := w.AwaitHello(t, 2); hello.GetTerm() != 0 {
		t.Errorf("an unproven term was passed on: %v", hello)
	}
	w.Await(t, 2, "credit under the lower term", func(e linktest.Event) bool { return e.Message.GetCredit() != nil })
}

func TestTokenAndAuthorityAreReadAnew(t *testing.T) {
	w := begin(t)
	w.config.TokenFile = linktest.WriteFile(t, "token", []byte("expired"))
	good, _ := os.ReadFile(w.config.CAFile)
	if err := os.WriteFile(w.config.CAFile, linktest.NewCA(t).PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(t, w.bash(t, `echo 1`))
	refused := func(reason string) func() bool {
		return func() bool { return w.MetricSum(t, "swarm_link_refused_total", reason) > 0 }
	}
	linktest.Eventually(t, "an operator of another authority is not trusted", refused("handshake"))
	if err := os.WriteFile(w.config.CAFile, good, 0o600); err != nil {
		t.Fatal(err)
	}
	linktest.Eventually(t, "an expired token is refused", refused("token_denied"))
	if err := os.WriteFile(w.config.TokenFile, []byte(coder.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w.AwaitCredit(t, 2)
}

func TestOldEpochIsRefused(t *testing.T) {
	w := script(t, `echo 1`)
	w.give(t, linktest.Assign(linktest.Attempt("t", 10), "{}"))
	w.AwaitResult(t, 1, 10)
	w.give(t, linktest.Acknowledge(linktest.Attempt("t", 10)))
	w.give(t, linktest.Assign(linktest.Attempt("t", 9), "{}"))
	if got := w.AwaitResult(t, 1, 9); got.GetOutcome() != declined || got.GetReason() != "StaleEpoch" {
		t.Errorf("an older epoch: %v", got)
	}
	w.AwaitCredit(t, 3) // what was declined took no slot
	w.give(t, linktest.Assign(linktest.Attempt("t", 10), "{}"))
	if got := w.AwaitResult(t, 2, 10); got.GetOutcome() != declined {
		t.Errorf("the same epoch again: %v", got)
	}
	w.give(t, linktest.Assign(linktest.Attempt("t", 11), "{}"))
	if got := w.AwaitResult(t, 1, 11); got.GetOutcome() != succeeded {
		t.Errorf("a newer epoch: %v", got)
	}
	if lines := w.journal(t, 4); len(lines) != 4 {
		t.Errorf("more ran than should have: %v", lines)
	}
}

func TestNewerAssignmentStopsTheOlder(t *testing.T) {
	w := script(t, waits)
	w.give(t, linktest.Assign(linktest.Attempt("t", 1), "t\n"))
	w.file(t, "pid-t")
	w.give(t, linktest.Assign(linktest.Attempt("t", 2), "t\n"))
	if got := w.AwaitResult(t, 1, 2); got.GetOutcome() != declined || got.GetReason() != "PreviousAttemptRunning" {
		t.Errorf("newer: %v", got)
	}
	if got := w.AwaitResult(t, 1, 1); got.GetOutcome() != handedBack || got.GetReason() != "Superseded" {
		t.Errorf("older: %v", got)
	}
}

func TestSlotsAreGrantedAndReturned(t *testing.T) {
	w := script(t, waits)
	w.give(t, linktest.Assign(linktest.Attempt("one", 1), "one\n"))
	w.give(t, linktest.Assign(linktest.Attempt("two", 2), "two\n"))
	w.file(t, "pid-two")
	if err := w.Send(coder, linktest.Assign(linktest.Attempt("three", 3), "three\n")); !errors.Is(err, link.ErrNoCredit) {
		t.Errorf("a third attempt in two slots: %v", err)
	}
	touch(t, w, "one")
	w.AwaitCredit(t, 3)
	w.give(t, linktest.Assign(linktest.Attempt("three", 4), "three\n"))
	w.file(t, "pid-three")
	touch(t, w, "two")
	touch(t, w, "three")
	w.AwaitCredit(t, 5)
	most, running := 0, 0
	for _, entry := range w.journal(t, 6) {
		if entry.Event == "start" {
			running++
		} else {
			running--
		}
		most = max(most, running)
	}
	if most != 2 || running != 0 {
		t.Errorf("at most %d ran at once, %d run still", most, running)
	}
}

func TestDrain(t *testing.T) {
	for name, c := range map[string]struct {
		finish time.Duration
		touch  bool
		want   string
	}{
		"what finishes in time is finished": {time.Hour, true, "succeeded"},
		"the rest is handed back":           {100 * time.Millisecond, false, "handed_back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script(t, waits)
			w.give(t, linktest.Assign(linktest.Attempt("one", 1), "one\n"))
			w.file(t, "pid-one")
			w.give(t, linktest.Drain(c.finish))
			w.Await(t, 1, "word of draining", func(e linktest.Event) bool { return e.Message.GetCredit().GetDraining() })
			w.give(t, linktest.Assign(linktest.Attempt("two", 2), "two\n")) // on credit from before
			if got := w.AwaitResult(t, 1, 2); got.GetOutcome() != declined || got.GetReason() != "Draining" {
				t.Errorf("new work: %v", got)
			}
			if c.touch {
				touch(t, w, "one")
			}
			w.AwaitResult(t, 1, 1)
			if lines := w.journal(t, 2); len(lines) != 2 || lines[1].Outcome != c.want {
				t.Errorf("journal %v, want %s", lines, c.want)
			}
		})
	}
}

func TestStoppingHandsBackAndWaitsForTheAcknowledgement(t *testing.T) {
	w := script(t, waits)
	attempt := linktest.Attempt("one", 1)
	w.give(t, linktest.Assign(attempt, "one\n"))
	pid := w.file(t, "pid-one")
	stopped := make(chan error)
	go func() { stopped <- w.stop() }()
	if got := w.AwaitResult(t, 1, 1); got.GetOutcome() != handedBack || got.GetReason() != "AgentStopping" {
		t.Errorf("got %v", got)
	}
	select {
	case <-stopped:
		t.Error("the agent did not wait for the acknowledgement")
	default:
	}
	w.give(t, linktest.Acknowledge(attempt))
	if err := <-stopped; err != nil {
		t.Errorf("ended with %v", err)
	}
	assertGone(t, pid)
}

// An operator from the future sends messages that this agent does not know.
func TestUnknownMessagesAreIgnored(t *testing.T) {
	w := script(t, `echo 1`)
	future := &linkv1.OperatorMessage{}
	field := protowire.AppendTag(nil, 999, protowire.BytesType)
	future.ProtoReflect().SetUnknown(protowire.AppendBytes(field, []byte("something new")))
	w.give(t, future)
	assign := linktest.Assign(linktest.Attempt("t", 1), "{}")
	assign.GetAssign().ProtoReflect().SetUnknown(protowire.AppendBytes(field, []byte("something new")))
	w.give(t, assign)
	if got := w.AwaitResult(t, 1, 1); got.GetOutcome() != succeeded {
		t.Errorf("got %v", got)
	}
}

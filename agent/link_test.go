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

// waitForFile runs until a file named like the task's payload appears, and returns it.
const waitForFile = `read -r name; echo $$ >$SWARM_STATE/pid-$name; until test -e $SWARM_STATE/$name; do sleep 0.01; done; echo "\"$name\""`

func touch(t *testing.T, a *testAgent, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.config.StateDir, name), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReconnectReportsRunningAndEndedAttempts(t *testing.T) {
	a := startScript(t, waitForFile)
	one, two := linktest.Attempt("one", 1), linktest.Attempt("two", 2)
	a.send(t, linktest.Assign(one, "one\n"))
	a.send(t, linktest.Assign(two, "two\n"))
	a.readWords(t, "pid-one")
	a.readWords(t, "pid-two")
	touch(t, a, "one")
	a.AwaitResult(t, 1, 1)

	a.network.Cut() // before any acknowledgement
	hello := a.AwaitHello(t, 2)
	if len(hello.GetRunning()) != 1 || hello.GetRunning()[0].Key() != two.Key() {
		t.Errorf("running: %v, want two", hello.GetRunning())
	}
	if len(hello.GetUnacknowledged()) != 1 || string(hello.GetUnacknowledged()[0].GetValue()) != `"one"` {
		t.Errorf("unacknowledged: %v, want one", hello.GetUnacknowledged())
	}

	a.network.Cut()
	if again := a.AwaitHello(t, 3); len(again.GetUnacknowledged()) != 1 {
		t.Errorf("a result was forgotten without an acknowledgement: %v", again)
	}
	linktest.Eventually(t, "linked", func() bool { return a.Send(coder, linktest.Acknowledge(one)) == nil })
	touch(t, a, "two")
	a.AwaitResult(t, 1, 2) // follows the acknowledgement
	linktest.Eventually(t, "linked", func() bool { return a.Send(coder, linktest.Acknowledge(two)) == nil })
	three := linktest.Attempt("three", 3)
	a.send(t, linktest.Assign(three, "three\n"))
	a.readWords(t, "pid-three")
	touch(t, a, "three")
	a.AwaitResult(t, 1, 3) // the agent reads in order, so it has read the acknowledgement

	a.network.Cut()
	last := a.AwaitHello(t, 4)
	if len(last.GetRunning()) != 0 || len(last.GetUnacknowledged()) != 1 || last.GetUnacknowledged()[0].GetAttempt().Key() != three.Key() {
		t.Errorf("what was acknowledged is told again: %v", last)
	}
	if lines := a.awaitJournal(t, 6); len(lines) != 6 {
		t.Errorf("something ran twice: %v", lines)
	}
}

func TestResultIsSentAgainOnTheSameStream(t *testing.T) {
	t.Parallel()
	a := newTestAgent(t)
	clock := a.useManualClock()
	a.start(t, a.scriptHandler(t, `echo 1`))
	a.AwaitCredit(t, 2)
	a.runTask(t, "{}")
	clock.advance(5 * time.Second)
	a.send(t, linktest.Peers()) // which makes the agent read the clock
	a.AwaitResult(t, 2, 1)
	streams := 0
	for _, event := range a.Events() {
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
	a := newTestAgent(t)
	a.config.CAFile = linktest.WriteFile(t, "cas.crt", append(append([]byte{}, ca.PEM...), a.CA.PEM...))
	a.Leader.Follow(leader.Address)
	a.start(t, a.scriptHandler(t, `echo 1`))
	leader.AwaitCredit(t, 2)
	if events := a.Events(); len(events) != 0 {
		t.Errorf("the follower's consumer was told %v", events)
	}
	if got := a.MetricSum(t, "swarm_link_messages_total", "redirect"); got != 1 {
		t.Errorf("%d redirects", got)
	}
	// When the leader dies, the agent connects through the Service again, and stays with the new leader.
	a.Leader.Lead(2)
	leader.Stop()
	a.AwaitCredit(t, 2)
}

// A former leader may wake up and welcome agents before it notices that it no longer leads.
func TestAgentLeavesAFormerLeader(t *testing.T) {
	a := newTestAgent(t)
	a.Leader.Lead(5)
	a.start(t, a.scriptHandler(t, `echo 1`))
	a.AwaitCredit(t, 2)
	a.Leader.Lead(4)
	a.network.Cut()
	a.AwaitHello(t, 2)
	a.AwaitLeft(t, 2)
	for _, event := range a.Events()[2:] {
		if event.Message.GetCredit() != nil && a.MetricSum(t, "swarm_link_agents", "") > 0 {
			t.Errorf("the agent offered itself to a leader of the past: %v", event)
		}
	}
	a.Leader.Lead(6)
	a.Await(t, 2, "credit under the new term", func(e linktest.Event) bool { return e.Message.GetCredit() != nil })
}

// An operator that cannot check the agent's term asks it to forget the term, for example when the Secret with the key was deleted.
func TestAgentForgetsATermThatTheOperatorRejects(t *testing.T) {
	a := newTestAgent(t, func(config *link.Config) { config.Terms = nil })
	a.Leader.Lead(5)
	a.start(t, a.scriptHandler(t, `echo 1`))
	a.AwaitCredit(t, 2)
	a.Leader.Lead(4)
	a.network.Cut()
	if hello := a.AwaitHello(t, 2); hello.GetTerm() != 0 {
		t.Errorf("an unproven term was passed on: %v", hello)
	}
	a.Await(t, 2, "credit under the lower term", func(e linktest.Event) bool { return e.Message.GetCredit() != nil })
}

func TestTokenAndCAAreReadAgainForEachStream(t *testing.T) {
	a := newTestAgent(t)
	a.config.TokenFile = linktest.WriteFile(t, "token", []byte("expired"))
	validToken, _ := os.ReadFile(a.config.CAFile)
	if err := os.WriteFile(a.config.CAFile, linktest.NewCA(t).PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	a.start(t, a.scriptHandler(t, `echo 1`))
	refused := func(reason string) func() bool {
		return func() bool { return a.MetricSum(t, "swarm_link_refused_total", reason) > 0 }
	}
	linktest.Eventually(t, "an operator of another authority is not trusted", refused("handshake"))
	if err := os.WriteFile(a.config.CAFile, validToken, 0o600); err != nil {
		t.Fatal(err)
	}
	linktest.Eventually(t, "an expired token is refused", refused("token_denied"))
	if err := os.WriteFile(a.config.TokenFile, []byte(coder.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	a.AwaitCredit(t, 2)
}

func TestOldEpochIsRefused(t *testing.T) {
	a := startScript(t, `echo 1`)
	a.send(t, linktest.Assign(linktest.Attempt("t", 10), "{}"))
	a.AwaitResult(t, 1, 10)
	a.send(t, linktest.Acknowledge(linktest.Attempt("t", 10)))
	a.send(t, linktest.Assign(linktest.Attempt("t", 9), "{}"))
	if got := a.AwaitResult(t, 1, 9); got.GetOutcome() != declined || got.GetReason() != "StaleEpoch" {
		t.Errorf("an older epoch: %v", got)
	}
	a.AwaitCredit(t, 3) // what was declined took no slot
	a.send(t, linktest.Assign(linktest.Attempt("t", 10), "{}"))
	if got := a.AwaitResult(t, 2, 10); got.GetOutcome() != declined {
		t.Errorf("the same epoch again: %v", got)
	}
	a.send(t, linktest.Assign(linktest.Attempt("t", 11), "{}"))
	if got := a.AwaitResult(t, 1, 11); got.GetOutcome() != succeeded {
		t.Errorf("a newer epoch: %v", got)
	}
	if lines := a.awaitJournal(t, 4); len(lines) != 4 {
		t.Errorf("more ran than should have: %v", lines)
	}
}

func TestNewerAssignmentStopsTheOlder(t *testing.T) {
	a := startScript(t, waitForFile)
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), "t\n"))
	a.readWords(t, "pid-t")
	a.send(t, linktest.Assign(linktest.Attempt("t", 2), "t\n"))
	if got := a.AwaitResult(t, 1, 2); got.GetOutcome() != declined || got.GetReason() != "PreviousAttemptRunning" {
		t.Errorf("newer: %v", got)
	}
	if got := a.AwaitResult(t, 1, 1); got.GetOutcome() != handedBack || got.GetReason() != "Superseded" {
		t.Errorf("older: %v", got)
	}
}

func TestSlotsAreGrantedAndReturned(t *testing.T) {
	a := startScript(t, waitForFile)
	a.send(t, linktest.Assign(linktest.Attempt("one", 1), "one\n"))
	a.send(t, linktest.Assign(linktest.Attempt("two", 2), "two\n"))
	a.readWords(t, "pid-two")
	if err := a.Send(coder, linktest.Assign(linktest.Attempt("three", 3), "three\n")); !errors.Is(err, link.ErrNoCredit) {
		t.Errorf("a third attempt in two slots: %v", err)
	}
	touch(t, a, "one")
	a.AwaitCredit(t, 3)
	a.send(t, linktest.Assign(linktest.Attempt("three", 4), "three\n"))
	a.readWords(t, "pid-three")
	touch(t, a, "two")
	touch(t, a, "three")
	a.AwaitCredit(t, 5)
	maxRunning, running := 0, 0
	for _, entry := range a.awaitJournal(t, 6) {
		if entry.Event == "start" {
			running++
		} else {
			running--
		}
		maxRunning = max(maxRunning, running)
	}
	if maxRunning != 2 || running != 0 {
		t.Errorf("at most %d ran at once, %d run still", maxRunning, running)
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
			a := startScript(t, waitForFile)
			a.send(t, linktest.Assign(linktest.Attempt("one", 1), "one\n"))
			a.readWords(t, "pid-one")
			a.send(t, linktest.Drain(c.finish))
			a.Await(t, 1, "word of draining", func(e linktest.Event) bool { return e.Message.GetCredit().GetDraining() })
			a.send(t, linktest.Assign(linktest.Attempt("two", 2), "two\n")) // on credit from before
			if got := a.AwaitResult(t, 1, 2); got.GetOutcome() != declined || got.GetReason() != "Draining" {
				t.Errorf("new work: %v", got)
			}
			if c.touch {
				touch(t, a, "one")
			}
			a.AwaitResult(t, 1, 1)
			if lines := a.awaitJournal(t, 2); len(lines) != 2 || lines[1].Outcome != c.want {
				t.Errorf("journal %v, want %s", lines, c.want)
			}
		})
	}
}

func TestStoppingHandsBackAndWaitsForTheAcknowledgement(t *testing.T) {
	a := startScript(t, waitForFile)
	attempt := linktest.Attempt("one", 1)
	a.send(t, linktest.Assign(attempt, "one\n"))
	pid := a.readWords(t, "pid-one")
	stopped := make(chan error)
	go func() { stopped <- a.stopAgent() }()
	if got := a.AwaitResult(t, 1, 1); got.GetOutcome() != handedBack || got.GetReason() != "AgentStopping" {
		t.Errorf("got %v", got)
	}
	select {
	case <-stopped:
		t.Error("the agent did not wait for the acknowledgement")
	default:
	}
	a.send(t, linktest.Acknowledge(attempt))
	if err := <-stopped; err != nil {
		t.Errorf("ended with %v", err)
	}
	assertGone(t, pid)
}

// An operator from the future sends messages that this agent does not know.
func TestUnknownMessagesAreIgnored(t *testing.T) {
	a := startScript(t, `echo 1`)
	future := &linkv1.OperatorMessage{}
	field := protowire.AppendTag(nil, 999, protowire.BytesType)
	future.ProtoReflect().SetUnknown(protowire.AppendBytes(field, []byte("something new")))
	a.send(t, future)
	assign := linktest.Assign(linktest.Attempt("t", 1), "{}")
	assign.GetAssign().ProtoReflect().SetUnknown(protowire.AppendBytes(field, []byte("something new")))
	a.send(t, assign)
	if got := a.AwaitResult(t, 1, 1); got.GetOutcome() != succeeded {
		t.Errorf("got %v", got)
	}
}

package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// F4: the operator distinguishes processes, and the connections of one process.
func TestHelloNamesTheProcessAndTheConnection(t *testing.T) {
	a := startScript(t, `echo 1`)
	first := a.AwaitHello(t, 1)
	a.network.Cut()
	second := a.AwaitHello(t, 2)
	a.network.Cut()
	third := a.AwaitHello(t, 3)
	if len(first.GetProcess()) < 20 || second.GetProcess() != first.GetProcess() || third.GetProcess() != first.GetProcess() {
		t.Errorf("processes %q, %q, %q", first.GetProcess(), second.GetProcess(), third.GetProcess())
	}
	if first.GetConnection() != 1 || second.GetConnection() <= 1 || third.GetConnection() <= second.GetConnection() {
		t.Errorf("connections %d, %d, %d", first.GetConnection(), second.GetConnection(), third.GetConnection())
	}
	if err := a.stopAgent(); err != nil {
		t.Fatal(err)
	}
	a.start(t, a.scriptHandler(t, `echo 1`))
	next := a.Await(t, 1, "another process", func(e linktest.Event) bool {
		return e.Hello != nil && e.Hello.GetProcess() != first.GetProcess()
	})
	if next.Hello.GetConnection() != 1 {
		t.Errorf("the first connection of a process has number %d", next.Hello.GetConnection())
	}
}

// A new leader may not know yet which lease is stored.
func TestHelloNamesTheLeaseOfTheLastWelcome(t *testing.T) {
	a := startScript(t, `echo 1`)
	first := a.AwaitHello(t, 1)
	a.network.Cut()
	second := a.AwaitHello(t, 2)
	if first.GetLease() != nil || second.GetLease().AsDuration() != a.LeaseDuration {
		t.Errorf("leases %v, then %v", first.GetLease(), second.GetLease())
	}
}

// newBlockingHandler returns a handler that returns when it is released.
func newBlockingHandler() (handler agent.Handler, release func()) {
	gate := make(chan struct{})
	return agent.HandlerFunc(func(context.Context, agent.Task, agent.Report) (any, error) {
		<-gate
		return 1, nil
	}), func() { close(gate) }
}

// finishAttempts has an agent finish many attempts without an acknowledgement, and cuts the connection.
func finishAttempts(t *testing.T, count int) *testAgent {
	t.Helper()
	a := newTestAgent(t)
	a.config.Slots = count
	handler, release := newBlockingHandler()
	a.start(t, handler)
	a.AwaitCredit(t, int64(count))
	for n := range count {
		a.send(t, linktest.Assign(linktest.Attempt(fmt.Sprint("t", n), int64(n+1)), "{}"))
	}
	linktest.Eventually(t, "all run", func() bool { return len(a.readJournal(t)) == count })
	release()
	a.awaitJournal(t, 2*count)
	a.network.Cut()
	return a
}

// F14: more results than Hello has room for are all named before Complete.
func TestAPartialHelloIsCompleted(t *testing.T) {
	const count = 200
	a := finishAttempts(t, count)
	hello := a.AwaitHello(t, 2)
	a.Await(t, 1, "Complete", func(e linktest.Event) bool { return e.Message.GetComplete() != nil })
	if !hello.GetPartial() || len(hello.GetUnacknowledged()) != 128 {
		t.Errorf("partial %t with %d results", hello.GetPartial(), len(hello.GetUnacknowledged()))
	}
	named, complete := map[int64]int{}, false
	for _, event := range afterHello(a, 2) {
		switch kind := event.Message.GetKind().(type) {
		case *linkv1.AgentMessage_Result:
			named[kind.Result.GetAttempt().GetEpoch()]++
			if complete {
				continue // sent again: it was not acknowledged
			}
		case *linkv1.AgentMessage_Complete:
			complete = true
			for _, result := range hello.GetUnacknowledged() {
				named[result.GetAttempt().GetEpoch()]++
			}
			if len(named) != count {
				t.Errorf("%d results were named before Complete, want %d", len(named), count)
			}
		}
	}
}

// afterHello is what was received after the nth Hello.
func afterHello(a *testAgent, n int) []linktest.Event {
	events := a.Events()
	for i, event := range events {
		if event.Hello != nil {
			n--
		}
		if n == 0 {
			return events[i+1:]
		}
	}
	return nil
}

func TestAHelloWithRoomForAllNeedsNoComplete(t *testing.T) {
	a := finishAttempts(t, 3)
	hello := a.AwaitHello(t, 2)
	if hello.GetPartial() || len(hello.GetUnacknowledged()) != 3 {
		t.Errorf("partial %t with %d results", hello.GetPartial(), len(hello.GetUnacknowledged()))
	}
	a.Await(t, 2, "new credit", func(e linktest.Event) bool { return e.Message.GetCredit() != nil })
	for _, event := range a.Events() {
		if event.Message.GetComplete() != nil {
			t.Error("Complete came though Hello was complete")
		}
	}
}

// Goodbye proves that nothing runs any more: it comes after the last process has ended, and nothing comes after it.
func TestGoodbyeIsTheLastMessage(t *testing.T) {
	a := startScript(t, `trap 'sleep 0.2; exit 1' TERM; echo $$ >$SWARM_STATE/pids; while :; do sleep 0.01; done`)
	attempt := linktest.Attempt("t", 1)
	a.send(t, linktest.AssignWith(&linkv1.Assign{Attempt: attempt}))
	pids := a.readWords(t, "pids")
	stopped := make(chan error)
	go func() { stopped <- a.stopAgent() }()
	a.AwaitResult(t, 1, 1)
	for _, event := range a.Events() {
		if event.Message.GetGoodbye() != nil {
			t.Error("Goodbye came before the result was acknowledged")
		}
	}
	a.send(t, linktest.Acknowledge(attempt))
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	a.Await(t, 1, "the end", func(e linktest.Event) bool { return e.HasLeft })
	events := a.Events()
	if events[len(events)-2].Message.GetGoodbye() == nil {
		t.Errorf("the last message is %v", events[len(events)-2].Message)
	}
	assertGone(t, pids)
}

// An operator that does not answer does not delay an agent that stops.
func TestGoodbyeDoesNotWaitForAFrozenOperator(t *testing.T) {
	t.Parallel()
	a := startScript(t, `echo 1`)
	a.network.Freeze()
	start := time.Now()
	if err := a.stopAgent(); err != nil {
		t.Fatal(err)
	}
	// Only the end of the lease would end a stream that waits for an answer.
	if took := time.Since(start); took > a.LeaseDuration/2 {
		t.Errorf("stopping took %v, with a lease of %v", took, a.LeaseDuration)
	}
}

// The kubelet shows the content of this file in the status of the container that has ended.
func TestTheTerminationLogNamesTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		make func(file string) error
		want bool
	}{
		"it exists": {func(file string) error {
			return os.WriteFile(file, []byte("left by another process, and longer than a process id"), 0o600)
		}, true},
		"it does not exist": {func(string) error { return nil }, false},
		"it is a folder":    {func(file string) error { return os.Mkdir(file, 0o700) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAgent(t)
			a.config.TerminationLog = filepath.Join(t.TempDir(), "termination-log")
			if err := c.make(a.config.TerminationLog); err != nil {
				t.Fatal(err)
			}
			a.start(t, a.scriptHandler(t, `echo 1`))
			process := a.AwaitHello(t, 1).GetProcess()
			content, err := os.ReadFile(a.config.TerminationLog)
			if (err == nil) != c.want || c.want && string(content) != process {
				t.Errorf("the file says %q (%v), Hello says %q", content, err, process)
			}
		})
	}
}

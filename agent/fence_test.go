package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
)

const lease = 3 * time.Second

// ignoreSIGTERMWithChild records SIGTERM and ignores it, and has a child that ignores it, too. Its progress makes the agent read the clock.
const ignoreSIGTERMWithChild = `trap 'echo 1 >$SWARM_STATE/term' TERM
	bash -c "trap '' TERM; while :; do sleep 0.05; done" &
	echo $$ $! >$SWARM_STATE/pids
	while :; do echo 1 >$SWARM_PROGRESS; sleep 0.02; done`

// The operator stops answering while the connection stays open: the agent must rely on its lease alone.
func TestSelfFencingWhenEchoesStop(t *testing.T) {
	t.Parallel()
	a := startScript(t, ignoreSIGTERMWithChild, linktest.WithLease(lease))
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), "{}"))
	pids := a.readWords(t, "pids")
	echoes := a.MetricSum(t, "swarm_link_messages_total", "echo")
	linktest.Eventually(t, "a heartbeat is answered", func() bool { return a.MetricSum(t, "swarm_link_messages_total", "echo") > echoes })
	a.network.Freeze()

	assertGone(t, pids)
	finish := a.awaitJournal(t, 2)[1]
	if !finish.Fenced || finish.Outcome != "handed_back" {
		t.Errorf("journal %v", finish)
	}
	// The operator has received no heartbeat since, and counts from the receipt: it may give the work away after this.
	heard, _ := a.LastHeard(coder)
	if over := heard.Add(lease + leaseMargin); finish.Time.After(over) {
		t.Errorf("the agent's work ended %v after the operator might have given it away", finish.Time.Sub(over))
	}

	a.network.Thaw()
	hello := a.AwaitHello(t, 2)
	if hello.GetLease() != nil {
		t.Errorf("Hello names a lease of %v that is over", hello.GetLease())
	}
	results := hello.GetUnacknowledged()
	if len(hello.GetRunning()) != 0 || len(results) != 1 || results[0].GetReason() != "LeaseExpired" || results[0].GetOutcome() != handedBack {
		t.Errorf("after the thaw: %v", hello)
	}
	a.Await(t, 2, "new credit", func(e linktest.Event) bool { return e.Message.GetCredit() != nil })
}

// A manualClock advances only when a test advances it, so that tests do not depend on the speed of the machine.
type manualClock struct{ now, reads atomic.Int64 }

// useManualClock gives the agent a stopped clock, which starts as if the machine had been up for an hour.
func (a *testAgent) useManualClock() *manualClock {
	clock := &manualClock{}
	clock.advance(time.Hour)
	a.config.SetClock(clock.read)
	return clock
}

func (c *manualClock) read() time.Duration {
	c.reads.Add(1)
	return time.Duration(c.now.Load())
}

func (c *manualClock) advance(by time.Duration) { c.now.Add(int64(by)) }

// awaitReads waits until the agent, including its watchdog, has read the clock several times.
func (c *manualClock) awaitReads(t *testing.T) {
	t.Helper()
	before := c.reads.Load()
	linktest.Eventually(t, "the agent looks at the clock", func() bool { return c.reads.Load() >= before+20 })
}

// A stopped attempt gets its grace period, at most a quarter of the lease, and is killed at the end of the lease, not earlier.
func TestFenceAsksWorkToStopBeforeItKills(t *testing.T) {
	t.Parallel()
	a := newTestAgent(t, linktest.WithLease(time.Minute))
	clock := a.useManualClock()
	a.start(t, a.scriptHandler(t, ignoreSIGTERMWithChild))
	a.AwaitCredit(t, 2)
	a.send(t, linktest.AssignWith(&linkv1.Assign{Attempt: linktest.Attempt("t", 1), Grace: durationpb.New(time.Hour)}))
	pids := a.readWords(t, "pids")
	a.network.Freeze()

	clock.advance(45*time.Second - 1)
	clock.awaitReads(t)
	if _, err := os.Stat(filepath.Join(a.config.StateDir, "term")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program was asked to stop before three quarters of the lease had passed: %v", err)
	}
	clock.advance(1)
	a.readWords(t, "term")
	clock.advance(15*time.Second - 1)
	clock.awaitReads(t)
	if finished := len(a.awaitJournal(t, 1)) - 1; finished != 0 {
		t.Error("the program was killed before the lease was over")
	}
	clock.advance(1)
	assertGone(t, pids)
	if finish := a.awaitJournal(t, 2)[1]; !finish.Fenced || finish.Outcome != "handed_back" {
		t.Errorf("journal %v", finish)
	}
}

// busy makes the agent read the clock all the time, and ends when a file of its name exists.
const busy = `read -r name; echo $$ >$SWARM_STATE/pid-$name
	until test -e $SWARM_STATE/$name; do echo 1 >$SWARM_PROGRESS; sleep 0.02; done`

// A freeze that is shorter than the lease less the program's grace is not noticed by what runs.
func TestShortSilenceStopsNothing(t *testing.T) {
	t.Parallel()
	a := newTestAgent(t, linktest.WithLease(time.Minute))
	clock := a.useManualClock()
	a.start(t, a.scriptHandler(t, busy))
	a.AwaitCredit(t, 2)
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), "t\n"))
	a.readWords(t, "pid-t")
	for round := int64(2); round <= 4; round++ {
		echoes := a.MetricSum(t, "swarm_link_messages_total", "echo")
		a.network.Freeze()
		clock.advance(time.Minute - a.config.Grace - 1)
		clock.awaitReads(t)
		a.network.Thaw()
		linktest.Eventually(t, "an echo", func() bool { return a.MetricSum(t, "swarm_link_messages_total", "echo") > echoes })
		a.awaitTaken(t, round)
	}
	touch(t, a, "t")
	if got := a.AwaitResult(t, 1, 1); got.GetOutcome() != succeeded {
		t.Errorf("got %v", got)
	}
}

// awaitTaken assigns an attempt that ends at once. The agent would decline it if it had not heard the echo, which was sent before.
func (a *testAgent) awaitTaken(t *testing.T, epoch int64) {
	t.Helper()
	name := fmt.Sprint("round-", epoch)
	touch(t, a, name)
	a.send(t, linktest.Assign(linktest.Attempt(name, epoch), name+"\n"))
	if got := a.AwaitResult(t, 1, epoch); got.GetOutcome() != succeeded {
		t.Errorf("round %d: %v", epoch, got)
	}
}

// Work that stops on request and succeeds is not lost: its result is delivered when the operator is back.
func TestWorkThatFinishesDuringTheSilenceIsDelivered(t *testing.T) {
	t.Parallel()
	a := startScript(t, `trap 'echo "\"saved\""; exit 0' TERM; echo 1 >$SWARM_PROGRESS; sleep 1000 & wait`, linktest.WithLease(lease))
	a.send(t, linktest.AssignWith(&linkv1.Assign{Attempt: linktest.Attempt("t", 1), Grace: durationpb.New(time.Minute)}))
	a.AwaitProgress(t, 1, 1)
	a.network.Freeze()
	a.awaitJournal(t, 2)
	a.network.Cut()
	a.network.Thaw()
	found := a.Await(t, 1, "the result", func(e linktest.Event) bool { return len(e.Hello.GetUnacknowledged()) == 1 })
	if result := found.Hello.GetUnacknowledged()[0]; string(result.GetValue()) != `"saved"` || result.GetOutcome() != succeeded {
		t.Errorf("got %v", result)
	}
}

// Code in the agent's own process cannot be killed: if it ignores its context, the process has to end.
func TestHandlerThatDoesNotStopEndsTheProcess(t *testing.T) {
	t.Parallel()
	a := newTestAgent(t, linktest.WithLease(time.Minute))
	clock := a.useManualClock()
	release, running := make(chan struct{}), make(chan struct{})
	defer close(release)
	a.start(t, agent.HandlerFunc(func(context.Context, agent.Task, agent.Report) (any, error) {
		close(running)
		<-release
		return nil, nil
	}))
	a.AwaitCredit(t, 2)
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), "{}"))
	<-running
	a.network.Freeze()
	clock.advance(time.Minute)
	clock.awaitReads(t)
	select {
	case reason := <-a.aborted:
		t.Fatalf("the process had to end at the end of the lease, without time for code to be gone: %s", reason)
	default:
	}
	clock.advance(watchdog.DeathTimeout)
	if reason := <-a.aborted; !strings.Contains(reason, "could not be killed") {
		t.Errorf("reason %q", reason)
	}
}

package agent_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

const (
	lease = 3 * time.Second
	slack = 500 * time.Millisecond // for a machine that does other things as well
)

// stubborn notes when it is asked to stop, does not, and has a child that does not listen at all.
const stubborn = `trap 'echo ${EPOCHREALTIME/./} >$SWARM_STATE/term' TERM
	bash -c "trap '' TERM; while :; do sleep 0.05; done" &
	echo $$ $! >$SWARM_STATE/pids
	while :; do sleep 0.02; done`

// The operator stops answering while the connection stays open: the agent must go by its lease alone.
func TestSelfFencingWhenEchoesStop(t *testing.T) {
	t.Parallel()
	w := script(t, stubborn, linktest.Lease(lease))
	// The longest grace that the lease allows: on a busy machine the program needs it to note the request.
	w.give(t, linktest.AssignWith(&linkv1.Assign{Attempt: linktest.Attempt("t", 1), Grace: durationpb.New(lease / 4)}))
	pids := w.file(t, "pids")
	echoes := func() int { return w.Count(t, "swarm_link_messages_total", "echo") }
	linktest.Eventually(t, "heartbeats are counted on", func() bool { return echoes() >= 2 })
	known := echoes()
	linktest.Eventually(t, "a heartbeat is answered", func() bool { return echoes() > known })
	<-time.After(lease / 6) // half-way to the next heartbeat: an echo that is held back would not count for the agent
	w.network.Freeze()
	frozen := time.Now()

	heard, _ := w.LastHeard(coder)

	// The grace is taken from the end of the lease, which counts from shortly before the receipt of the last heartbeat.
	micros, err := strconv.ParseInt(w.file(t, "term")[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	assertGone(t, pids)
	finish := w.journal(t, 2)[1]
	assertBetween(t, "SIGTERM", time.UnixMicro(micros).Sub(heard), lease*3/4-100*time.Millisecond, finish.Time.Sub(heard))
	assertBetween(t, "SIGKILL", finish.Time.Sub(frozen), lease*2/3-slack, lease+margin)
	if !finish.Fenced || finish.Outcome != "handed_back" {
		t.Errorf("journal %v", finish)
	}
	// The operator has received no heartbeat since, and counts from the receipt: it may give the work away after this.
	if over := heard.Add(lease + margin); finish.Time.After(over) {
		t.Errorf("the agent's work ended %v after the operator might have given it away", finish.Time.Sub(over))
	}

	w.network.Thaw()
	hello := w.AwaitHello(t, 2)
	if hello.GetLease() != nil {
		t.Errorf("Hello names a lease of %v that is over", hello.GetLease())
	}
	results := hello.GetUnacknowledged()
	if len(hello.GetRunning()) != 0 || len(results) != 1 || results[0].GetReason() != "LeaseExpired" || results[0].GetOutcome() != handedBack {
		t.Errorf("after the thaw: %v", hello)
	}
	w.Await(t, 2, "new credit", func(e linktest.Event) bool { return e.Message.GetCredit() != nil })
}

// A freeze that is shorter than the lease less the program's grace is not noticed by what runs.
func TestShortSilenceStopsNothing(t *testing.T) {
	t.Parallel()
	w := script(t, waits, linktest.Lease(lease))
	w.give(t, linktest.Assign(linktest.Attempt("t", 1), "t\n"))
	w.file(t, "pid-t")
	for round := 1; round <= 3; round++ {
		w.network.Freeze()
		<-time.After(lease / 3) // heartbeats go every third, so the last echo is two thirds old in the end
		w.network.Thaw()
		beats := w.Count(t, "swarm_link_messages_total", "echo")
		linktest.Eventually(t, "an echo", func() bool { return w.Count(t, "swarm_link_messages_total", "echo") > beats })
	}
	touch(t, w, "t")
	if got := w.AwaitResult(t, 1, 1); got.GetOutcome() != succeeded {
		t.Errorf("got %v", got)
	}
}

// Work that stops when it is asked, and succeeds, is not lost: its result is delivered when the operator is back.
func TestWorkThatFinishesDuringTheSilenceIsDelivered(t *testing.T) {
	t.Parallel()
	w := script(t, `trap 'echo "\"saved\""; exit 0' TERM; echo 1 >$SWARM_PROGRESS; sleep 1000 & wait`, linktest.Lease(lease))
	w.give(t, linktest.AssignWith(&linkv1.Assign{Attempt: linktest.Attempt("t", 1), Grace: durationpb.New(time.Minute)}))
	w.AwaitProgress(t, 1, 1)
	w.network.Freeze()
	w.journal(t, 2)
	w.network.Cut()
	w.network.Thaw()
	found := w.Await(t, 1, "the result", func(e linktest.Event) bool { return len(e.Hello.GetUnacknowledged()) == 1 })
	if result := found.Hello.GetUnacknowledged()[0]; string(result.GetValue()) != `"saved"` || result.GetOutcome() != succeeded {
		t.Errorf("got %v", result)
	}
}

// Code in the agent's own process cannot be killed: if it does not heed its context, the process has to go.
func TestHandlerThatDoesNotStopEndsTheProcess(t *testing.T) {
	t.Parallel()
	w := begin(t, linktest.Lease(time.Second))
	release, running := make(chan struct{}), make(chan struct{})
	w.run(t, agent.HandlerFunc(func(context.Context, agent.Task, agent.Report) (any, error) {
		close(running)
		<-release
		return nil, nil
	}))
	w.AwaitCredit(t, 2)
	w.give(t, linktest.Assign(linktest.Attempt("t", 1), "{}"))
	<-running
	w.network.Freeze()
	frozen := time.Now()
	reason := <-w.aborted
	assertBetween(t, "the end of the process", time.Since(frozen), time.Second, 2*time.Second+slack)
	if !strings.Contains(reason, "could not be killed") {
		t.Errorf("reason %q", reason)
	}
	close(release)
}

func assertBetween(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	t.Logf("%s came after %v (%v to %v)", what, got, least, most)
	if got < least || got > most {
		t.Errorf("%s came after %v, want %v to %v", what, got, least, most)
	}
}

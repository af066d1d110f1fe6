package linktest

import (
	"sync"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// patience is far longer than anything takes, so that only things that never happen fail.
const patience = 20 * time.Second

// An Event is one call of the server to its consumer.
type Event struct {
	At      time.Time
	Agent   link.Agent
	PodUID  string
	Hello   *linkv1.Hello        // joined
	Message *linkv1.AgentMessage // received
	Left    bool
}

// A Recorder is a link.Events that records all calls.
type Recorder struct {
	// Refusal is called before an agent joins.
	Refusal func(hello *linkv1.Hello) error
	// Length of the lease that agents get.
	Length time.Duration

	busy   sync.Mutex
	mu     sync.Mutex
	events []Event
	more   chan struct{} // closed and replaced with every event
}

func newRecorder() *Recorder {
	return &Recorder{Length: 15 * time.Second, more: make(chan struct{})}
}

// Lease implements link.Leases.
func (r *Recorder) Lease(link.Agent, *linkv1.Hello) time.Duration { return r.Length }

// Joined implements link.Events.
func (r *Recorder) Joined(agent link.Agent, podUID string, hello *linkv1.Hello) error {
	if r.Refusal != nil {
		if err := r.Refusal(hello); err != nil {
			return err
		}
	}
	r.add(Event{Agent: agent, PodUID: podUID, Hello: hello})
	return nil
}

// Received implements link.Events.
func (r *Recorder) Received(agent link.Agent, message *linkv1.AgentMessage) {
	r.busy.Lock()
	defer r.busy.Unlock()
	r.add(Event{Agent: agent, Message: message})
}

// Hold blocks received messages until release is called.
func (r *Recorder) Hold() (release func()) {
	r.busy.Lock()
	return r.busy.Unlock
}

// Left implements link.Events.
func (r *Recorder) Left(agent link.Agent) { r.add(Event{Agent: agent, Left: true}) }

func (r *Recorder) add(event Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	event.At = time.Now()
	r.events = append(r.events, event)
	close(r.more)
	r.more = make(chan struct{})
}

// Events returns all events so far.
func (r *Recorder) Events() []Event {
	events, _ := r.since(0)
	return events
}

func (r *Recorder) since(from int) ([]Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events[from:]...), r.more
}

// Await waits for the n-th wanted event, counted from 1.
func (r *Recorder) Await(t testing.TB, n int, what string, wanted func(Event) bool) Event {
	t.Helper()
	seen, found := 0, 0
	timeout := time.After(patience)
	for {
		events, more := r.since(seen)
		seen += len(events)
		for _, event := range events {
			if wanted(event) {
				if found++; found == n {
					return event
				}
			}
		}
		select {
		case <-more:
		case <-timeout:
			t.Fatalf("%s did not come (%d of %d); seen: %v", what, found, n, r.Events())
		}
	}
}

// AwaitHello waits for the n-th Hello.
func (r *Recorder) AwaitHello(t testing.TB, n int) *linkv1.Hello {
	t.Helper()
	return r.Await(t, n, "Hello", func(e Event) bool { return e.Hello != nil }).Hello
}

// AwaitLeft waits for the n-th end of a stream.
func (r *Recorder) AwaitLeft(t testing.TB, n int) {
	t.Helper()
	r.Await(t, n, "the end of a stream", func(e Event) bool { return e.Left })
}

// AwaitResult waits for the n-th result of an epoch.
func (r *Recorder) AwaitResult(t testing.TB, n int, epoch int64) *linkv1.Result {
	t.Helper()
	return r.Await(t, n, "a result", func(e Event) bool {
		return e.Message.GetResult() != nil && e.Message.GetResult().GetAttempt().GetEpoch() == epoch
	}).Message.GetResult()
}

// AwaitProgress waits until an epoch has reached this percentage.
func (r *Recorder) AwaitProgress(t testing.TB, epoch int64, percent int32) *linkv1.Progress {
	t.Helper()
	return r.Await(t, 1, "progress", func(e Event) bool {
		progress := e.Message.GetProgress()
		return progress.GetAttempt().GetEpoch() == epoch && progress.GetPercent() >= percent
	}).Message.GetProgress()
}

// AwaitCredit waits until so much was granted on the latest stream.
func (r *Recorder) AwaitCredit(t testing.TB, granted int64) *linkv1.Credit {
	t.Helper()
	return r.Await(t, 1, "credit", func(e Event) bool { return e.Message.GetCredit().GetGranted() >= granted }).Message.GetCredit()
}

// Eventually polls a condition that no event announces.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: never", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

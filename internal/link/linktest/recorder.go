package linktest

import (
	"sync"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// waitTimeout is far longer than anything takes, so that only things that never happen fail.
const waitTimeout = 20 * time.Second

// An Event is one call of the server to its consumer.
type Event struct {
	Time    time.Time
	Agent   link.Agent
	PodUID  string
	Hello   *linkv1.Hello        // joined
	Message *linkv1.AgentMessage // received
	HasLeft bool
}

// A Recorder is a link.Events that records all calls.
type Recorder struct {
	// JoinError is called before an agent joins.
	JoinError func(hello *linkv1.Hello) error
	// LeaseDuration of the lease that agents get.
	LeaseDuration time.Duration

	receiving sync.Mutex
	mu        sync.Mutex
	events    []Event
	changed   chan struct{} // closed and replaced with every event
}

func newRecorder() *Recorder {
	return &Recorder{LeaseDuration: 15 * time.Second, changed: make(chan struct{})}
}

// WithLease implements link.Leases.
func (r *Recorder) Lease(link.Agent, *linkv1.Hello) time.Duration { return r.LeaseDuration }

// Joined implements link.Events.
func (r *Recorder) Joined(agent link.Agent, podUID string, hello *linkv1.Hello) error {
	if r.JoinError != nil {
		if err := r.JoinError(hello); err != nil {
			return err
		}
	}
	r.add(Event{Agent: agent, PodUID: podUID, Hello: hello})
	return nil
}

// Received implements link.Events.
func (r *Recorder) Received(agent link.Agent, message *linkv1.AgentMessage) {
	r.receiving.Lock()
	defer r.receiving.Unlock()
	r.add(Event{Agent: agent, Message: message})
}

// Block blocks received messages until release is called.
func (r *Recorder) Block() (release func()) {
	r.receiving.Lock()
	return r.receiving.Unlock
}

// Left implements link.Events.
func (r *Recorder) Left(agent link.Agent) { r.add(Event{Agent: agent, HasLeft: true}) }

func (r *Recorder) add(event Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	event.Time = time.Now()
	r.events = append(r.events, event)
	close(r.changed)
	r.changed = make(chan struct{})
}

// Events returns all events so far.
func (r *Recorder) Events() []Event {
	events, _ := r.eventsFrom(0)
	return events
}

func (r *Recorder) eventsFrom(from int) ([]Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events[from:]...), r.changed
}

// Await waits for the n-th wanted event, counted from 1.
func (r *Recorder) Await(t testing.TB, n int, description string, matches func(Event) bool) Event {
	t.Helper()
	offset, matched := 0, 0
	timeout := time.After(waitTimeout)
	for {
		events, changed := r.eventsFrom(offset)
		offset += len(events)
		for _, event := range events {
			if matches(event) {
				if matched++; matched == n {
					return event
				}
			}
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s did not come (%d of %d); seen: %v", description, matched, n, r.Events())
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
	r.Await(t, n, "the end of a stream", func(e Event) bool { return e.HasLeft })
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
func Eventually(t testing.TB, description string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: never", description)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

package link

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// fakeLeadership is a Leadership that a test controls.
type fakeLeadership struct {
	term atomic.Int64
	lost atomic.Bool
}

func (t *fakeLeadership) Leading() (int64, bool) { return t.term.Load(), !t.lost.Load() }
func (t *fakeLeadership) Leader() string         { return "" }

// fakeStream is the agent's end of a stream. It calls a function after each message that it gets.
type fakeStream struct {
	sent      []*linkv1.OperatorMessage
	afterSend func()
	err       error
}

func (o *fakeStream) Send(message *linkv1.OperatorMessage) error {
	if o.err != nil {
		return o.err
	}
	o.sent = append(o.sent, message)
	if o.afterSend != nil {
		o.afterSend()
	}
	return nil
}

func newSession(limits Limits) (*session, *fakeLeadership) {
	leadership := &fakeLeadership{}
	leadership.term.Store(3)
	return &session{
		term: 3, frameBytes: 1 << 20, leadership: leadership, metrics: newMetrics(prometheus.NewRegistry()),
		queue: newQueue[*linkv1.OperatorMessage](limits.QueueMessages, limits.QueueBytes),
		ended: make(chan struct{}), left: make(chan struct{}),
	}, leadership
}

func newCancel(task string) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Cancel{Cancel: &linkv1.Cancel{Attempt: &linkv1.Attempt{Task: task}}}}
}

func assertEnded(t *testing.T, s *session, want codes.Code) {
	t.Helper()
	select {
	case <-s.ended:
	default:
		t.Fatal("the session goes on")
	}
	if ending, ok := errors.AsType[*streamError](s.endCause); !ok || status.Code(ending.grpcStatus) != want {
		t.Errorf("the agent gets %v, want %v", s.endCause, want)
	}
}

func TestQueuedMessagesAreNotSentAfterLeadershipIsLost(t *testing.T) {
	for reason, loseLeadership := range map[string]func(*fakeLeadership){
		"not leading":  func(leads *fakeLeadership) { leads.lost.Store(true) },
		"another term": func(leads *fakeLeadership) { leads.term.Add(1) },
	} {
		t.Run(reason, func(t *testing.T) {
			s, leads := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
			for _, task := range []string{"a", "b", "c"} {
				if err := s.send(newCancel(task)); err != nil {
					t.Fatal(err)
				}
			}
			stream := &fakeStream{}
			stream.afterSend = func() {
				loseLeadership(leads) // while the first message is under way
				if len(stream.sent) == 3 {
					s.end(nil) // do not wait for more
				}
			}
			s.writeQueue(stream)
			if len(stream.sent) != 1 || stream.sent[0].GetCancel().GetAttempt().GetTask() != "a" {
				t.Errorf("sent %v: only the first was sent by a leader", stream.sent)
			}
			assertEnded(t, s, codes.Unavailable)
		})
	}
}

func TestNothingIsQueuedAfterLeadershipIsLost(t *testing.T) {
	s, leads := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
	leads.lost.Store(true)
	if err := s.send(newCancel("a")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("got %v", err)
	}
	if message, found := s.queue.tryPop(); found {
		t.Errorf("queued %v", message)
	}
	assertEnded(t, s, codes.Unavailable)
}

func TestSlowReaderIsCutOffAtTheLimitOfItsQueue(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 2, QueueBytes: 1 << 20})
	if err := errors.Join(s.send(newCancel("a")), s.send(newCancel("b"))); err != nil {
		t.Fatal(err)
	}
	if err := s.send(newCancel("c")); !errors.Is(err, ErrTooSlow) {
		t.Errorf("got %v", err)
	}
	assertEnded(t, s, codes.Aborted)
}

func TestStreamThatFailsEndsTheSession(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 2, QueueBytes: 1 << 20})
	if err := s.send(newCancel("a")); err != nil {
		t.Fatal(err)
	}
	s.writeQueue(&fakeStream{err: status.Error(codes.Canceled, "gone")})
	assertEnded(t, s, codes.Canceled)
}

// A reader that does not read cannot exceed the memory limits, and others can use them to the last byte.
func TestQueueIsFilledToItsLimitOfBytes(t *testing.T) {
	size := proto.Size(newCancel("a"))
	q := newQueue[*linkv1.OperatorMessage](10, 2*size)
	if !q.push(newCancel("a")) || !q.push(newCancel("b")) {
		t.Error("refused what fits")
	}
	if q.push(newCancel("c")) {
		t.Error("took more than its limit")
	}
	if first, _ := q.tryPop(); first.GetCancel().GetAttempt().GetTask() != "a" || !q.push(newCancel("d")) {
		t.Errorf("what was sent still counts: %v", first)
	}
}

// The last heartbeat of an agent decides until when its work must not go to another. It may be forgotten only long after that.
func TestLastHeartbeatIsForgottenLate(t *testing.T) {
	r, now := newRegistry(Limits{StreamsPerAgent: 2}.withDefaults()), time.Now()
	linked, recent, old := Agent{Name: "linked"}, Agent{Name: "recent"}, Agent{Name: "old"}
	r.sessions[linked] = &session{}
	for agent, age := range map[Agent]time.Duration{linked: 2 * lastHeardTTL, recent: lastHeardTTL, old: lastHeardTTL + time.Second} {
		r.markHeard(agent, now.Add(-age))
		r.markWelcomed(agent, lastHeardTTL)
	}
	r.removeExpired(now)
	for agent, want := range map[Agent]bool{linked: true, recent: true, old: false} {
		if _, known := r.lastHeard(agent); known != want {
			t.Errorf("%s: remembered %t", agent.Name, known)
		}
	}
}

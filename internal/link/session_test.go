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

// tenure is a Leadership that a test controls.
type tenure struct {
	term atomic.Int64
	lost atomic.Bool
}

func (t *tenure) Leading() (int64, bool) { return t.term.Load(), !t.lost.Load() }
func (t *tenure) Leader() string         { return "" }

// outlet is the agent's end of a stream. It calls a function after each message that it gets.
type outlet struct {
	got   []*linkv1.OperatorMessage
	after func()
	err   error
}

func (o *outlet) Send(message *linkv1.OperatorMessage) error {
	if o.err != nil {
		return o.err
	}
	o.got = append(o.got, message)
	if o.after != nil {
		o.after()
	}
	return nil
}

func newSession(limits Limits) (*session, *tenure) {
	leads := &tenure{}
	leads.term.Store(3)
	return &session{
		term: 3, frameBytes: 1 << 20, leadership: leads, metrics: newMetrics(prometheus.NewRegistry()), queue: newQueue[*linkv1.OperatorMessage](limits.QueueMessages, limits.QueueBytes),
		ended: make(chan struct{}), left: make(chan struct{}),
	}, leads
}

func cancelOf(task string) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Cancel{Cancel: &linkv1.Cancel{Attempt: &linkv1.Attempt{Task: task}}}}
}

func assertEnded(t *testing.T, s *session, want codes.Code) {
	t.Helper()
	select {
	case <-s.ended:
	default:
		t.Fatal("the session goes on")
	}
	if ending, ok := errors.AsType[*ending](s.cause); !ok || status.Code(ending.status) != want {
		t.Errorf("the agent is told %v, want %v", s.cause, want)
	}
}

func TestQueuedMessagesAreNotSentAfterLeadershipIsLost(t *testing.T) {
	for reason, lose := range map[string]func(*tenure){
		"not leading":  func(leads *tenure) { leads.lost.Store(true) },
		"another term": func(leads *tenure) { leads.term.Add(1) },
	} {
		t.Run(reason, func(t *testing.T) {
			s, leads := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
			for _, task := range []string{"a", "b", "c"} {
				if err := s.send(cancelOf(task)); err != nil {
					t.Fatal(err)
				}
			}
			stream := &outlet{}
			stream.after = func() {
				lose(leads) // while the first message is under way
				if len(stream.got) == 3 {
					s.end(nil) // do not wait for more
				}
			}
			s.write(stream)
			if len(stream.got) != 1 || stream.got[0].GetCancel().GetAttempt().GetTask() != "a" {
				t.Errorf("sent %v: only the first was sent by a leader", stream.got)
			}
			assertEnded(t, s, codes.Unavailable)
		})
	}
}

func TestNothingIsQueuedAfterLeadershipIsLost(t *testing.T) {
	s, leads := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
	leads.lost.Store(true)
	if err := s.send(cancelOf("a")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("got %v", err)
	}
	if message, found := s.queue.first(); found {
		t.Errorf("queued %v", message)
	}
	assertEnded(t, s, codes.Unavailable)
}

func TestSlowReaderIsCutOffAtTheLimitOfItsQueue(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 2, QueueBytes: 1 << 20})
	if err := errors.Join(s.send(cancelOf("a")), s.send(cancelOf("b"))); err != nil {
		t.Fatal(err)
	}
	if err := s.send(cancelOf("c")); !errors.Is(err, ErrTooSlow) {
		t.Errorf("got %v", err)
	}
	assertEnded(t, s, codes.Aborted)
}

func TestStreamThatFailsEndsTheSession(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 2, QueueBytes: 1 << 20})
	if err := s.send(cancelOf("a")); err != nil {
		t.Fatal(err)
	}
	s.write(&outlet{err: status.Error(codes.Canceled, "gone")})
	assertEnded(t, s, codes.Canceled)
}

// A reader that does not read cannot exceed the memory limits, and others can use them to the last byte.
func TestQueueIsFilledToItsLimitOfBytes(t *testing.T) {
	size := proto.Size(cancelOf("a"))
	q := newQueue[*linkv1.OperatorMessage](10, 2*size)
	if !q.push(cancelOf("a")) || !q.push(cancelOf("b")) {
		t.Error("refused what fits")
	}
	if q.push(cancelOf("c")) {
		t.Error("took more than its limit")
	}
	if first, _ := q.first(); first.GetCancel().GetAttempt().GetTask() != "a" || !q.push(cancelOf("d")) {
		t.Errorf("what was sent still counts: %v", first)
	}
}

// The last heartbeat of an agent decides until when its work must not go to another. It may be forgotten only long after that.
func TestLastHeartbeatIsForgottenLate(t *testing.T) {
	r, now := newRegistry(Limits{PerAgent: 2}.withDefaults()), time.Now()
	linked, recent, old := Agent{Name: "linked"}, Agent{Name: "recent"}, Agent{Name: "old"}
	r.sessions[linked] = &session{}
	for agent, age := range map[Agent]time.Duration{linked: 2 * forgetAfter, recent: forgetAfter, old: forgetAfter + time.Second} {
		r.hear(agent, now.Add(-age))
		r.welcomed(agent, forgetAfter)
	}
	r.forgetOld(now)
	for agent, want := range map[Agent]bool{linked: true, recent: true, old: false} {
		if _, known := r.lastHeard(agent); known != want {
			t.Errorf("%s: remembered %t", agent.Name, known)
		}
	}
}

package link

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/limit"
)

// sender is the sending half of a stream.
type sender interface {
	Send(message *linkv1.OperatorMessage) error
}

// A session is one admitted stream of one agent.
type session struct {
	agent      Agent
	connection connection
	term       int64
	resetTerm  bool // the agent named an unproven term
	lease      time.Duration
	features   []string
	frameBytes int
	leadership Leadership
	metrics    *metrics
	queue      *queue[*linkv1.OperatorMessage]
	waiting    *waitingSum
	refusals   *limit.Refusals

	cause error
	ended chan struct{} // closed by end
	left  chan struct{} // closed when the consumer has been notified

	mu       sync.Mutex
	over     bool
	granted  int64 // Assigns that the agent accepts on this stream
	assigned int64 // Assigns that were sent on it
}

// An ending is why a session ended: a status for the agent, and a refusal to count unless it is empty.
type ending struct {
	refusal refusal
	status  error
}

func (e *ending) Error() string { return "stream ended: " + status.Convert(e.status).Message() }

func cutOff(why refusal, message string) error {
	return &ending{refusal: why, status: status.Error(codes.Aborted, message)}
}

// end ends the session. The first cause counts.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause)
}

func (s *session) endLocked(cause error) {
	if !s.over {
		s.over, s.cause = true, cause
		close(s.ended)
	}
}

// endUnless ends the session, unless lives returns true. No echo can change its answer meanwhile.
func (s *session) endUnless(lives func() bool, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over && lives() {
		return false
	}
	s.endLocked(cause)
	return true
}

// echo answers a heartbeat and records its receipt, both or neither. Once the session is over, the end of the agent's lease
// is counted from the last receipt: a later echo would let the agent work for longer.
func (s *session) echo(sequence int64, note func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return false
	case !s.speaks():
		s.endLocked(notLeading())
		s.metrics.drop(droppedNotLeading)
		return false
	}
	note()
	if !s.queue.push(&linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Echo{Echo: &linkv1.Echo{Sequence: sequence}}}) {
		s.endLocked(cutOff(refusedSlow, "you read too slowly"))
		s.metrics.drop(droppedSlow)
		return false
	}
	return true
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// speaks reports whether this session may still send.
func (s *session) speaks() bool {
	term, leading := s.leadership.Leading()
	return leading && term == s.term
}

// send queues a message and never waits.
func (s *session) send(message *linkv1.OperatorMessage) error {
	switch {
	case s.isOver():
		return s.dropped(droppedNotLinked, ErrNotLinked)
	case !s.knows(message):
		return s.dropped(droppedUnsupported, ErrUnsupported)
	case proto.Size(message) > s.frameBytes:
		return s.dropped(droppedTooLarge, ErrTooLarge)
	case !s.speaks():
		s.end(notLeading())
		return s.dropped(droppedNotLeading, ErrNotLeading)
	case message.GetAssign() != nil:
		return s.assign(message)
	case !s.queue.push(message):
		s.end(cutOff(refusedSlow, "you read too slowly"))
		return s.dropped(droppedSlow, ErrTooSlow)
	}
	return nil
}

// assign queues an assignment if the agent has granted it and there is room. Assignments are large and can wait: the consumer
// can assign them again, so they leave room for messages that cannot wait.
func (s *session) assign(message *linkv1.OperatorMessage) error {
	if !s.spendCredit() {
		return s.dropped(droppedNoCredit, ErrNoCredit)
	}
	switch size := proto.Size(message); {
	case !s.waiting.add(s.agent.Namespace, size):
		s.refusals.Count(limit.QueuedBytesPerNamespace)
	case s.queue.pushSparing(message):
		return nil
	default:
		s.waiting.remove(s.agent.Namespace, size)
	}
	s.returnCredit()
	return s.dropped(droppedNoRoom, ErrNoRoom)
}

// settle records that a message no longer waits.
func (s *session) settle(message *linkv1.OperatorMessage) {
	if message.GetAssign() != nil {
		s.waiting.remove(s.agent.Namespace, proto.Size(message))
	}
}

// release returns the queue's share of the namespace's room.
func (s *session) release() {
	for _, message := range s.queue.close() {
		s.settle(message)
	}
}

func (s *session) dropped(why string, err error) error {
	s.metrics.drop(why)
	return err
}

// knows reports whether the agent named the feature that a message belongs to.
func (s *session) knows(message *linkv1.OperatorMessage) bool {
	switch {
	case message.GetPeers() != nil:
		return slices.Contains(s.features, linkv1.FeaturePeers)
	case message.GetCancel().GetHandBack():
		return slices.Contains(s.features, linkv1.FeatureHandBack)
	}
	return true
}

func (s *session) spendCredit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assigned >= s.granted {
		return false
	}
	s.assigned++
	return true
}

func (s *session) returnCredit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned--
}

func (s *session) grant(credit *linkv1.Credit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = max(s.granted, credit.GetGranted())
}

// write sends the queue to the stream until the session ends. Leadership is checked again for each message: it may have been
// queued before it was lost.
func (s *session) write(to sender) {
	for {
		message, more := s.queue.pop(s.ended)
		switch {
		case !more:
			return
		case !s.speaks():
			s.settle(message)
			s.metrics.drop(droppedNotLeading)
			s.end(notLeading())
			return
		}
		err := to.Send(message)
		s.settle(message)
		if err != nil {
			s.end(&ending{status: err})
			return
		}
		s.metrics.sent(kindOf(message))
	}
}

func notLeading() error {
	return &ending{refusal: refusedRedirected, status: status.Error(codes.Unavailable, "this process does not lead any more: connect again")}
}

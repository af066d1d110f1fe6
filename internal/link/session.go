package link

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// sender is the half of a stream that speaks.
type sender interface {
	Send(message *linkv1.OperatorMessage) error
}

// A session is one admitted stream of one agent.
type session struct {
	agent      Agent
	connection connection
	term       int64
	features   []string
	frameBytes int
	leadership Leadership
	metrics    *metrics
	queue      *queue

	once  sync.Once
	cause error
	ended chan struct{} // closed by end
	left  chan struct{} // closed when the consumer has been told

	mu       sync.Mutex
	granted  int64 // Assigns that the agent allows on this stream
	assigned int64 // Assigns that were sent on it
}

// An ending is why a session ended: a status for the agent, and a count for us unless it is empty.
type ending struct {
	refusal refusal
	status  error
}

func (e *ending) Error() string { return "stream ended: " + status.Convert(e.status).Message() }

func cutOff(why refusal, message string) error {
	return &ending{refusal: why, status: status.Error(codes.Aborted, message)}
}

// end is called by whoever finds first that the session is over.
func (s *session) end(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.ended)
	})
}

// speaks says whether what this session was admitted for still holds.
func (s *session) speaks() bool {
	term, leading := s.leadership.Leading()
	return leading && term == s.term
}

// send queues a message and never waits.
func (s *session) send(message *linkv1.OperatorMessage) error {
	switch {
	case !s.knows(message):
		return s.dropped(droppedUnsupported, ErrUnsupported)
	case proto.Size(message) > s.frameBytes:
		return s.dropped(droppedTooLarge, ErrTooLarge)
	case !s.speaks():
		s.end(notLeading())
		return s.dropped(droppedNotLeading, ErrNotLeading)
	case message.GetAssign() != nil && !s.spendCredit():
		return s.dropped(droppedNoCredit, ErrNoCredit)
	case !s.queue.push(message):
		s.end(cutOff(refusedSlow, "you read too slowly"))
		return s.dropped(droppedSlow, ErrTooSlow)
	}
	return nil
}

func (s *session) dropped(why string, err error) error {
	s.metrics.drop(why)
	return err
}

// knows says whether the agent named the feature that a message belongs to.
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

func (s *session) grant(credit *linkv1.Credit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = max(s.granted, credit.GetGranted())
}

// write carries the queue to the stream until the session ends. Leadership is asked again for each message: it may have
// been queued before it was lost.
func (s *session) write(to sender) {
	for {
		message, more := s.queue.pop(s.ended)
		switch {
		case !more:
			return
		case !s.speaks():
			s.metrics.drop(droppedNotLeading)
			s.end(notLeading())
			return
		}
		if err := to.Send(message); err != nil {
			s.end(&ending{status: err})
			return
		}
		s.metrics.sent(kindOf(message))
	}
}

func notLeading() error {
	return &ending{refusal: refusedRedirected, status: status.Error(codes.Unavailable, "this process does not lead any more: connect again")}
}

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

// messageSender is the sending half of a stream.
type messageSender interface {
	Send(message *linkv1.OperatorMessage) error
}

// A session is one admitted stream of one agent.
type session struct {
	agent        Agent
	connectionID connectionID
	term         int64
	resetTerm    bool // the agent named an unproven term
	lease        time.Duration
	features     []string
	frameBytes   int
	leadership   Leadership
	metrics      *metrics
	queue        *queue[*linkv1.OperatorMessage]
	queueLimiter *namespaceByteLimiter
	refusals     *limit.Refusals

	endCause error
	ended    chan struct{} // closed by end
	left     chan struct{} // closed when the consumer has been notified

	mu            sync.Mutex
	isOver        bool
	creditGranted int64 // Assigns that the agent accepts on this stream
	creditSpent   int64 // Assigns that were sent on it
}

// A streamError is why a session ended: a status for the agent, and a refusal to count unless it is empty.
type streamError struct {
	reason     refusalReason
	grpcStatus error
}

func (e *streamError) Error() string {
	return "stream ended: " + status.Convert(e.grpcStatus).Message()
}

func newAbortedError(reason refusalReason, message string) error {
	return &streamError{reason: reason, grpcStatus: status.Error(codes.Aborted, message)}
}

// end ends the session. The first cause counts.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause)
}

func (s *session) endLocked(cause error) {
	if !s.isOver {
		s.isOver, s.endCause = true, cause
		close(s.ended)
	}
}

// endUnless ends the session, unless lives returns true. No echo can change its answer meanwhile.
func (s *session) endUnless(isAlive func() bool, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOver && isAlive() {
		return false
	}
	s.endLocked(cause)
	return true
}

// echo answers a heartbeat and records its receipt, both or neither. Once the session is over, the end of the agent's lease
// is counted from the last receipt: a later echo would let the agent work for longer.
func (s *session) echo(sequence int64, recordReceipt func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isOver:
		return false
	case !s.isLeading():
		s.endLocked(newNotLeadingError())
		s.metrics.drop(droppedNotLeading)
		return false
	}
	recordReceipt()
	if !s.queue.push(&linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Echo{Echo: &linkv1.Echo{Sequence: sequence}}}) {
		s.endLocked(newAbortedError(refusedSlow, "you read too slowly"))
		s.metrics.drop(droppedSlow)
		return false
	}
	return true
}

func (s *session) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isOver
}

// isLeading reports whether this session may still send.
func (s *session) isLeading() bool {
	term, leading := s.leadership.Leading()
	return leading && term == s.term
}

// send queues a message and never waits.
func (s *session) send(message *linkv1.OperatorMessage) error {
	switch {
	case s.hasEnded():
		return s.drop(droppedNotLinked, ErrNotLinked)
	case !s.supports(message):
		return s.drop(droppedUnsupported, ErrUnsupported)
	case proto.Size(message) > s.frameBytes:
		return s.drop(droppedTooLarge, ErrTooLarge)
	case !s.isLeading():
		s.end(newNotLeadingError())
		return s.drop(droppedNotLeading, ErrNotLeading)
	case message.GetAssign() != nil:
		return s.assign(message)
	case !s.queue.push(message):
		s.end(newAbortedError(refusedSlow, "you read too slowly"))
		return s.drop(droppedSlow, ErrTooSlow)
	}
	return nil
}

// assign queues an assignment if the agent has granted it and there is room. Assignments are large and can wait: the consumer
// can assign them again, so they leave room for messages that cannot wait.
func (s *session) assign(message *linkv1.OperatorMessage) error {
	if !s.spendCredit() {
		return s.drop(droppedNoCredit, ErrNoCredit)
	}
	switch size := proto.Size(message); {
	case !s.queueLimiter.add(s.agent.Namespace, size):
		s.refusals.Count(limit.QueuedBytesPerNamespace)
	case s.queue.pushWithReserve(message):
		return nil
	default:
		s.queueLimiter.remove(s.agent.Namespace, size)
	}
	s.returnCredit()
	return s.drop(droppedNoRoom, ErrNoRoom)
}

// releaseQueued records that a message no longer waits.
func (s *session) releaseQueued(message *linkv1.OperatorMessage) {
	if message.GetAssign() != nil {
		s.queueLimiter.remove(s.agent.Namespace, proto.Size(message))
	}
}

// closeQueue returns the queue's share of the namespace's room.
func (s *session) closeQueue() {
	for _, message := range s.queue.close() {
		s.releaseQueued(message)
	}
}

func (s *session) drop(reason string, err error) error {
	s.metrics.drop(reason)
	return err
}

// supports reports whether the agent named the feature that a message belongs to.
func (s *session) supports(message *linkv1.OperatorMessage) bool {
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
	if s.creditSpent >= s.creditGranted {
		return false
	}
	s.creditSpent++
	return true
}

func (s *session) returnCredit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creditSpent--
}

func (s *session) grantCredit(credit *linkv1.Credit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creditGranted = max(s.creditGranted, credit.GetGranted())
}

// writeQueue sends the queue to the stream until the session ends. Leadership is checked again for each message: it may have been
// queued before it was lost.
func (s *session) writeQueue(stream messageSender) {
	for {
		message, open := s.queue.pop(s.ended)
		switch {
		case !open:
			return
		case !s.isLeading():
			s.releaseQueued(message)
			s.metrics.drop(droppedNotLeading)
			s.end(newNotLeadingError())
			return
		}
		err := stream.Send(message)
		s.releaseQueued(message)
		if err != nil {
			s.end(&streamError{grpcStatus: err})
			return
		}
		s.metrics.sent(messageKind(message))
	}
}

func newNotLeadingError() error {
	return &streamError{reason: refusedRedirected, grpcStatus: status.Error(codes.Unavailable,
		"this process does not lead any more: connect again")}
}

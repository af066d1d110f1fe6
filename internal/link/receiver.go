package link

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// errReceiveBudget ends a stream when there is no room for its messages, so that no other namespace waits for it. The agent
// reconnects, and reports again what was not acknowledged.
var errReceiveBudget = &streamError{refusedReceived, status.Error(codes.ResourceExhausted,
	"too much that the agents of this namespace sent waits to be handled: connect again")}

// streamReceiver is what an agent has sent. It counts as received until it is handled.
type streamReceiver struct {
	inbox             *inbox
	reservation       *memoryReservation
	conn              *meteredConn
	currentCost       int                                     // cost of the message that is being handled
	answerHeartbeat   atomic.Pointer[func(*linkv1.Heartbeat)] // answers heartbeats, once there is a session
	helloReceived     bool                                    // Hello was received
	answeredHeartbeat *linkv1.AgentMessage                    // heartbeat that was answered at once; it is passed on as well
	done              chan struct{}                           // closed when the stream is over; then err says why
	err               error
}

func newStreamReceiver(ctx context.Context, limits Limits, reservation *memoryReservation) *streamReceiver {
	return &streamReceiver{inbox: newInbox(2 * limits.FrameBytes), reservation: reservation, conn: meteredConnFromContext(ctx),
		done: make(chan struct{})}
}

// beginStream counts what was already received for the namespace, and reports whether there is room for it.
func (h *streamReceiver) beginStream() bool { return h.conn.beginStream(h.reservation) }

// release releases what the stream holds.
func (h *streamReceiver) release() {
	h.conn.endStream()
	h.reservation.releaseAll()
}

// receive waits for the next message.
func (h *streamReceiver) receive(stream agentStream) (*linkv1.AgentMessage, error) {
	message := receivedMessage{AgentMessage: &linkv1.AgentMessage{}}
	if err := stream.RecvMsg(&message); err != nil {
		return nil, err
	}
	if !h.reservation.reserve(memoryCost(message.AgentMessage)) {
		return nil, errReceiveBudget
	}
	h.conn.markDelivered(message.wireBytes)
	return message.AgentMessage, nil
}

// discard releases the cost of a message that will not be handled.
func (h *streamReceiver) discard(message *linkv1.AgentMessage) {
	h.reservation.release(memoryCost(message))
}

// startReading reads the stream at its allowed rate, until it fails or its handler returns. Heartbeats are answered at once:
// however long the consumer takes, an agent that is heard must not stop its work.
func (s *Server) startReading(stream agentStream, receiver *streamReceiver) {
	ctx, perSecond := stream.Context(), s.config.Limits.MessagesPerSecond
	limiter := rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)
	go func() {
		defer close(receiver.done)
		for {
			message, err := receiver.receive(stream)
			if err != nil {
				receiver.err = err
				return
			}
			if !limiter.Allow() {
				s.metrics.throttled.Inc()
				_ = limiter.Wait(ctx) // fails only when the stream is over, which Recv reports next
			}
			s.receiveMessage(ctx, receiver, message)
		}
	}()
}

// receiveMessage answers heartbeats, and leaves all other messages and the first heartbeat to the consumer.
func (s *Server) receiveMessage(ctx context.Context, receiver *streamReceiver, message *linkv1.AgentMessage) {
	switch answer := receiver.answerHeartbeat.Load(); {
	case answer != nil && message.GetHeartbeat() != nil:
		(*answer)(message.GetHeartbeat())
		if receiver.answeredHeartbeat != nil {
			receiver.discard(message)
			return
		}
		receiver.answeredHeartbeat = message
	case receiver.helloReceived && message.GetHello() != nil: // useless, and it may be a hundred times larger in memory than on the wire
		s.metrics.received(messageKind(message))
		s.metrics.drop(droppedUnknown)
		receiver.discard(message)
		return
	}
	receiver.helloReceived = receiver.helloReceived || message.GetHello() != nil
	s.enqueue(ctx, receiver, message)
}

// enqueue puts a message into the inbox. While the inbox is full, the stream is not read, heartbeats included. The agent then
// stops its work when its lease expires, and the operator counts from the last heartbeat that it did read.
func (s *Server) enqueue(ctx context.Context, receiver *streamReceiver, message *linkv1.AgentMessage) {
	inbox := receiver.inbox
	superseded, added := inbox.push(message)
	if !added {
		s.metrics.stalled.Inc()
	}
	for !added && ctx.Err() == nil {
		inbox.awaitRoom(ctx)
		superseded, added = inbox.push(message)
	}
	if superseded != nil {
		s.metrics.received(messageKind(superseded))
		s.metrics.drop(droppedSuperseded)
		receiver.discard(superseded)
	}
}

// next waits for a message, and returns nil when enough is closed. Messages that arrived before the stream ended still count.
// The previous message has been handled by now.
func (h *streamReceiver) next(stop <-chan struct{}) (*linkv1.AgentMessage, error) {
	h.reservation.release(h.currentCost)
	h.currentCost = 0
	for {
		select {
		case <-stop:
			return nil, nil
		case <-h.conn.overflow():
			return nil, errReceiveBudget
		case <-h.inbox.notEmpty:
			if message := h.pop(); message != nil {
				return message, nil
			}
		case <-h.done:
			if message := h.pop(); message != nil {
				return message, nil
			}
			return nil, asStreamError(h.err)
		}
	}
}

// pop returns nil if no message waits. A message is measured before the consumer changes it.
func (h *streamReceiver) pop() *linkv1.AgentMessage {
	message, ok := h.inbox.tryPop()
	if !ok {
		return nil
	}
	h.currentCost = memoryCost(message)
	return message
}

// asStreamError distinguishes a stream that ended normally from one that broke the rules.
func asStreamError(err error) error {
	switch streamErr, ok := errors.AsType[*streamError](err); {
	case ok:
		return streamErr
	case errors.Is(err, io.EOF):
		return &streamError{}
	case status.Code(err) == codes.ResourceExhausted:
		return &streamError{refusedOversize, err}
	case status.Code(err) == codes.Internal:
		return &streamError{refusedMalformed, err}
	}
	return &streamError{grpcStatus: err}
}

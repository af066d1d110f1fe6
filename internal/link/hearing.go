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

// errTooMuch ends a stream when there is no room for its messages, so that no other namespace waits for it. The agent
// reconnects, and reports again what was not acknowledged.
var errTooMuch = &ending{refusedReceived, status.Error(codes.ResourceExhausted,
	"too much that the agents of this namespace sent waits to be handled: connect again")}

// hearing is what an agent has sent. It counts as received until it is handled.
type hearing struct {
	inbox *inbox
	share *allowance
	meter *meter
	taken int                                     // cost of the message that is being handled
	beat  atomic.Pointer[func(*linkv1.Heartbeat)] // answers heartbeats, once there is a session
	hello bool                                    // Hello was received
	first *linkv1.AgentMessage                    // heartbeat that was answered at once; it is passed on as well
	over  chan struct{}                           // closed when the stream is over; then err says why
	err   error
}

func newHearing(stream context.Context, limits Limits, share *allowance) *hearing {
	return &hearing{inbox: newInbox(2 * limits.FrameBytes), share: share, meter: meterOfStream(stream), over: make(chan struct{})}
}

// begin counts what was already received for the namespace, and reports whether there is room for it.
func (h *hearing) begin() bool { return h.meter.begin(h.share) }

// end releases what the stream holds.
func (h *hearing) end() {
	h.meter.end()
	h.share.release()
}

// receive waits for the next message.
func (h *hearing) receive(from stream) (*linkv1.AgentMessage, error) {
	next := received{AgentMessage: &linkv1.AgentMessage{}}
	if err := from.RecvMsg(&next); err != nil {
		return nil, err
	}
	if !h.share.take(costOf(next.AgentMessage)) {
		return nil, errTooMuch
	}
	h.meter.took(next.wire)
	return next.AgentMessage, nil
}

// drop releases the cost of a message that will not be handled.
func (h *hearing) drop(message *linkv1.AgentMessage) { h.share.give(costOf(message)) }

// listen reads the stream at its allowed rate, until it fails or its handler returns. Heartbeats are answered at once:
// however long the consumer takes, an agent that is heard must not stop its work.
func (s *Server) listen(connected stream, heard *hearing) {
	ctx, perSecond := connected.Context(), s.config.Limits.MessagesPerSecond
	bucket := rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)
	go func() {
		defer close(heard.over)
		for {
			message, err := heard.receive(connected)
			if err != nil {
				heard.err = err
				return
			}
			if !bucket.Allow() {
				s.metrics.throttled.Inc()
				_ = bucket.Wait(ctx) // fails only when the stream is over, which Recv reports next
			}
			s.hear(ctx, heard, message)
		}
	}()
}

// hear answers heartbeats, and leaves all other messages and the first heartbeat to the consumer.
func (s *Server) hear(ctx context.Context, heard *hearing, message *linkv1.AgentMessage) {
	switch beat := heard.beat.Load(); {
	case beat != nil && message.GetHeartbeat() != nil:
		(*beat)(message.GetHeartbeat())
		if heard.first != nil {
			heard.drop(message)
			return
		}
		heard.first = message
	case heard.hello && message.GetHello() != nil: // useless, and it may be a hundred times larger in memory than on the wire
		s.metrics.received(kindOf(message))
		s.metrics.drop(droppedUnknown)
		heard.drop(message)
		return
	}
	heard.hello = heard.hello || message.GetHello() != nil
	s.leave(ctx, heard, message)
}

// leave puts a message into the inbox. While the inbox is full, the stream is not read, heartbeats included. The agent then
// stops its work when its lease expires, and the operator counts from the last heartbeat that it did read.
func (s *Server) leave(ctx context.Context, heard *hearing, message *linkv1.AgentMessage) {
	inbox := heard.inbox
	superseded, added := inbox.push(message)
	if !added {
		s.metrics.stalled.Inc()
	}
	for !added && ctx.Err() == nil {
		inbox.wait(ctx)
		superseded, added = inbox.push(message)
	}
	if superseded != nil {
		s.metrics.received(kindOf(superseded))
		s.metrics.drop(droppedSuperseded)
		heard.drop(superseded)
	}
}

// next waits for a message, and returns nil when enough is closed. Messages that arrived before the stream ended still count.
// The previous message has been handled by now.
func (h *hearing) next(enough <-chan struct{}) (*linkv1.AgentMessage, error) {
	h.share.give(h.taken)
	h.taken = 0
	for {
		select {
		case <-enough:
			return nil, nil
		case <-h.meter.overflows():
			return nil, errTooMuch
		case <-h.inbox.filled:
			if message := h.take(); message != nil {
				return message, nil
			}
		case <-h.over:
			if message := h.take(); message != nil {
				return message, nil
			}
			return nil, broken(h.err)
		}
	}
}

// take returns nil if no message waits. A message is measured before the consumer changes it.
func (h *hearing) take() *linkv1.AgentMessage {
	message, found := h.inbox.first()
	if !found {
		return nil
	}
	h.taken = costOf(message)
	return message
}

// broken distinguishes a stream that ended normally from one that broke the rules.
func broken(err error) error {
	switch end, ended := errors.AsType[*ending](err); {
	case ended:
		return end
	case errors.Is(err, io.EOF):
		return &ending{}
	case status.Code(err) == codes.ResourceExhausted:
		return &ending{refusedOversize, err}
	case status.Code(err) == codes.Internal:
		return &ending{refusedMalformed, err}
	}
	return &ending{status: err}
}

package connection

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// maxQueuedMessages is how many messages may wait for an operator that does not read before the stream is closed.
const maxQueuedMessages = 4096

// ErrOperatorNotReading means that the operator has not read for too long.
var ErrOperatorNotReading = errors.New("the operator does not read")

type rawStream = grpc.BidiStreamingClient[linkv1.AgentMessage, linkv1.OperatorMessage]

// A Stream is one stream to one operator.
type Stream struct {
	incoming chan *linkv1.OperatorMessage
	outgoing chan *linkv1.AgentMessage
	done     chan struct{} // closed when the stream has ended
	released chan struct{} // closed when its user is done with it
	cancel   context.CancelFunc
	release  func()
	welcomed atomic.Bool

	mu       sync.Mutex
	err      error
	closed   bool
	redirect string
}

func newStream(raw rawStream, cancel context.CancelFunc) *Stream {
	s := &Stream{
		incoming: make(chan *linkv1.OperatorMessage),
		outgoing: make(chan *linkv1.AgentMessage, maxQueuedMessages),
		done:     make(chan struct{}),
		released: make(chan struct{}),
		cancel:   cancel,
	}
	s.release = sync.OnceFunc(func() { close(s.released) })
	go s.readLoop(raw)
	go s.writeLoop(raw)
	return s
}

// Incoming receives the operator's messages. It is never closed: see Done.
func (s *Stream) Incoming() <-chan *linkv1.OperatorMessage { return s.incoming }

// Done is closed when the stream has ended. The user must still call Close: the next stream is opened only after that.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err returns why the stream ended.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Send queues a message and never blocks. A message to a stream that has ended is lost, like one in transit.
func (s *Stream) Send(message *linkv1.AgentMessage) {
	select {
	case s.outgoing <- message:
	default:
		s.closeWithError(ErrOperatorNotReading)
	}
}

// MarkWelcomed marks the stream as useful, so that the next one may follow soon.
func (s *Stream) MarkWelcomed() { s.welcomed.Store(true) }

// Redirect ends the stream; the next one goes to the address.
func (s *Stream) Redirect(address string) {
	s.mu.Lock()
	s.redirect = address
	s.mu.Unlock()
	s.Close()
}

func (s *Stream) redirectAddress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redirect
}

// CloseSend sends what is queued and ends the stream in order. It returns when the operator has read everything, or after the timeout.
// Nothing may be sent after it, and later messages of the operator are dropped.
func (s *Stream) CloseSend(timeout time.Duration) {
	s.Send(nil)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case <-s.incoming:
		case <-s.done:
			return
		case <-timer.C:
			return
		}
	}
}

// Close drops the stream. It can be called more than once.
func (s *Stream) Close() {
	s.closeWithError(nil)
	s.release()
}

func (s *Stream) closeWithError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed, s.err = true, err
	s.cancel()
	close(s.done)
}

func (s *Stream) readLoop(raw rawStream) {
	for {
		message, err := raw.Recv()
		if err != nil {
			s.closeWithError(err)
			return
		}
		select {
		case s.incoming <- message:
		case <-s.done:
			return
		}
	}
}

func (s *Stream) writeLoop(raw rawStream) {
	for {
		select {
		case <-s.done:
			return
		case message := <-s.outgoing:
			if message == nil { // from CloseSend
				_ = raw.CloseSend()
				return
			}
			// The cause of a failed Send is what Recv returns.
			if raw.Send(message) != nil {
				return
			}
		}
	}
}

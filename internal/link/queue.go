package link

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// A queue holds waiting messages, bounded by number and by bytes.
type queue[M proto.Message] struct {
	maxMessages, maxBytes int

	mu       sync.Mutex
	messages []M
	bytes    int
	closed   bool
	notEmpty chan struct{} // holds one token while messages may be waiting
}

func newQueue[M proto.Message](maxMessages, maxBytes int) *queue[M] {
	return &queue[M]{maxMessages: maxMessages, maxBytes: maxBytes, notEmpty: make(chan struct{}, 1)}
}

// push reports whether there was room.
func (q *queue[M]) push(message M) bool {
	return q.pushWithin(message, q.maxMessages, q.maxBytes)
}

// pushWithReserve is push, but leaves a quarter of the room to other messages.
func (q *queue[M]) pushWithReserve(message M) bool {
	return q.pushWithin(message, q.maxMessages*3/4, q.maxBytes*3/4)
}

func (q *queue[M]) pushWithin(message M, maxMessages, maxBytes int) bool {
	size := proto.Size(message)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.messages) >= maxMessages || q.bytes+size > maxBytes {
		return false
	}
	q.messages = append(q.messages, message)
	q.bytes += size
	notify(q.notEmpty)
	return true
}

// pop waits for a message, and returns false when done is closed.
func (q *queue[M]) pop(done <-chan struct{}) (message M, more bool) {
	for {
		select {
		case <-done:
			return message, false
		case <-q.notEmpty:
		}
		if message, found := q.tryPop(); found {
			return message, true
		}
	}
}

func (q *queue[M]) tryPop() (message M, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return message, false
	}
	var zero M
	message, q.messages[0] = q.messages[0], zero
	q.messages = q.messages[1:]
	q.bytes -= proto.Size(message)
	if len(q.messages) > 0 {
		notify(q.notEmpty)
	}
	return message, true
}

// close returns the waiting messages. No more are added.
func (q *queue[M]) close() []M {
	q.mu.Lock()
	defer q.mu.Unlock()
	remaining := q.messages
	q.closed, q.messages, q.bytes = true, nil, 0
	return remaining
}

func notify(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

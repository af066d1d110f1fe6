package link

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// A queue holds waiting messages, bounded by number and by bytes.
type queue[M proto.Message] struct {
	mostMessages, mostBytes int

	mu       sync.Mutex
	messages []M
	bytes    int
	closed   bool
	filled   chan struct{} // holds one token while messages may be waiting
}

func newQueue[M proto.Message](mostMessages, mostBytes int) *queue[M] {
	return &queue[M]{mostMessages: mostMessages, mostBytes: mostBytes, filled: make(chan struct{}, 1)}
}

// push reports whether there was room.
func (q *queue[M]) push(message M) bool {
	return q.pushWithin(message, q.mostMessages, q.mostBytes)
}

// pushSparing is push, but leaves a quarter of the room to other messages.
func (q *queue[M]) pushSparing(message M) bool {
	return q.pushWithin(message, q.mostMessages*3/4, q.mostBytes*3/4)
}

func (q *queue[M]) pushWithin(message M, mostMessages, mostBytes int) bool {
	size := proto.Size(message)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.messages) >= mostMessages || q.bytes+size > mostBytes {
		return false
	}
	q.messages = append(q.messages, message)
	q.bytes += size
	signal(q.filled)
	return true
}

// pop waits for a message, and returns false when done is closed.
func (q *queue[M]) pop(done <-chan struct{}) (message M, more bool) {
	for {
		select {
		case <-done:
			return message, false
		case <-q.filled:
		}
		if message, found := q.first(); found {
			return message, true
		}
	}
}

func (q *queue[M]) first() (message M, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return message, false
	}
	var none M
	message, q.messages[0] = q.messages[0], none
	q.messages = q.messages[1:]
	q.bytes -= proto.Size(message)
	if len(q.messages) > 0 {
		signal(q.filled)
	}
	return message, true
}

// close returns the waiting messages. No more are added.
func (q *queue[M]) close() []M {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.messages
	q.closed, q.messages, q.bytes = true, nil, 0
	return left
}

func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

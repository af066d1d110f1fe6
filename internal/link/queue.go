package link

import (
	"sync"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// A queue holds what waits to be sent to one agent, bounded by number and by bytes.
type queue struct {
	mostMessages, mostBytes int

	mu       sync.Mutex
	messages []*linkv1.OperatorMessage
	bytes    int
	filled   chan struct{} // holds one token while messages may be waiting
}

func newQueue(limits Limits) *queue {
	return &queue{mostMessages: limits.QueueMessages, mostBytes: limits.QueueBytes, filled: make(chan struct{}, 1)}
}

// push says whether there was room.
func (q *queue) push(message *linkv1.OperatorMessage) bool {
	size := proto.Size(message)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) >= q.mostMessages || q.bytes+size > q.mostBytes {
		return false
	}
	q.messages = append(q.messages, message)
	q.bytes += size
	q.wake()
	return true
}

// pop waits for a message; false when the queue's owner is done.
func (q *queue) pop(done <-chan struct{}) (*linkv1.OperatorMessage, bool) {
	for {
		select {
		case <-done:
			return nil, false
		case <-q.filled:
		}
		if message := q.first(); message != nil {
			return message, true
		}
	}
}

func (q *queue) first() *linkv1.OperatorMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return nil
	}
	message := q.messages[0]
	q.messages[0] = nil
	q.messages = q.messages[1:]
	q.bytes -= proto.Size(message)
	if len(q.messages) > 0 {
		q.wake()
	}
	return message
}

func (q *queue) wake() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

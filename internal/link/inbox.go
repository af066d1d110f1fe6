package link

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// messageOverhead is the memory that a waiting message needs beyond its bytes on the wire: decoded structs, strings, and its
// place in the inbox. Without it, an agent could exceed the limit many times over with messages of a few bytes.
const messageOverhead = 640

// entryOverhead is the same for an entry of the lists in Hello.
const entryOverhead = 320

// costOf returns the memory that a message takes until it is handled.
func costOf(message *linkv1.AgentMessage) int {
	hello := message.GetHello()
	entries := len(hello.GetRunning()) + len(hello.GetUnacknowledged()) + len(hello.GetFeatures())
	return proto.Size(message) + messageOverhead + entries*entryOverhead
}

// An inbox holds what an agent has sent while the consumer is busy. It is bounded by bytes alone. Only the last Progress and
// the last Result of an attempt are kept, because an agent keeps reporting progress and repeats results for as long as the
// consumer takes.
type inbox struct {
	mostBytes int

	mu      sync.Mutex
	waiting []*waitingMessage
	latest  map[inboxKey]*waitingMessage
	bytes   int
	filled  chan struct{} // holds one token while messages may be waiting
	freed   chan struct{} // holds one token while there may be room
}

type waitingMessage struct {
	*linkv1.AgentMessage
	key  inboxKey
	size int
}

// An inboxKey is shared by messages of which only the last one counts. The zero value is for messages that all count.
type inboxKey struct {
	kind    string
	attempt linkv1.AttemptKey
}

func keyOf(message *linkv1.AgentMessage) inboxKey {
	switch kind := message.GetKind().(type) {
	case *linkv1.AgentMessage_Progress:
		return inboxKey{"progress", kind.Progress.GetAttempt().Key()}
	case *linkv1.AgentMessage_Result:
		return inboxKey{"result", kind.Result.GetAttempt().Key()}
	}
	return inboxKey{}
}

func newInbox(mostBytes int) *inbox {
	return &inbox{
		mostBytes: mostBytes, latest: map[inboxKey]*waitingMessage{},
		filled: make(chan struct{}, 1), freed: make(chan struct{}, 1),
	}
}

// wait waits until there may be room, or until the context ends.
func (i *inbox) wait(ctx context.Context) {
	select {
	case <-i.freed:
	case <-ctx.Done():
	}
}

// push adds a message if there is room, and returns the message that it supersedes, if any. An empty inbox has room for any message.
func (i *inbox) push(message *linkv1.AgentMessage) (superseded *linkv1.AgentMessage, added bool) {
	key, size := keyOf(message), costOf(message)
	i.mu.Lock()
	defer i.mu.Unlock()
	earlier := i.latest[key]
	if earlier != nil {
		size -= earlier.size
	}
	if len(i.waiting) > 0 && size > 0 && i.bytes+size > i.mostBytes {
		return nil, false
	}
	i.bytes += size
	if earlier != nil {
		superseded, earlier.AgentMessage = earlier.AgentMessage, message
		earlier.size += size
		return superseded, true
	}
	i.add(&waitingMessage{message, key, size})
	return nil, true
}

func (i *inbox) add(message *waitingMessage) {
	i.waiting = append(i.waiting, message)
	if message.key != (inboxKey{}) {
		i.latest[message.key] = message
	}
	signal(i.filled)
}

// first takes the oldest message.
func (i *inbox) first() (message *linkv1.AgentMessage, found bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.waiting) == 0 {
		return nil, false
	}
	next := i.waiting[0]
	i.waiting[0] = nil
	i.waiting = i.waiting[1:]
	delete(i.latest, next.key)
	i.bytes -= next.size
	if len(i.waiting) > 0 {
		signal(i.filled)
	}
	signal(i.freed)
	return next.AgentMessage, true
}

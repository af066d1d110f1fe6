package link

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// messageOverheadBytes is the memory that a waiting message needs beyond its bytes on the wire: decoded structs, strings, and its
// place in the inbox. Without it, an agent could exceed the limit many times over with messages of a few bytes.
const messageOverheadBytes = 640

// entryOverheadBytes is the same for an entry of the lists in Hello.
const entryOverheadBytes = 320

// memoryCost returns the memory that a message takes until it is handled.
func memoryCost(message *linkv1.AgentMessage) int {
	hello := message.GetHello()
	entries := len(hello.GetRunning()) + len(hello.GetUnacknowledged()) + len(hello.GetFeatures())
	return proto.Size(message) + messageOverheadBytes + entries*entryOverheadBytes
}

// An inbox holds what an agent has sent while the consumer is busy. It is bounded by bytes alone. Only the last Progress and
// the last Result of an attempt are kept, because an agent keeps reporting progress and repeats results for as long as the
// consumer takes.
type inbox struct {
	maxBytes int

	mu       sync.Mutex
	messages []*queuedMessage
	latest   map[mergeKey]*queuedMessage
	bytes    int
	notEmpty chan struct{} // holds one token while messages may be waiting
	notFull  chan struct{} // holds one token while there may be room
}

type queuedMessage struct {
	*linkv1.AgentMessage
	mergeKey mergeKey
	size     int
}

// A mergeKey is shared by messages of which only the last one counts. The zero value is for messages that all count.
type mergeKey struct {
	kind       string
	attemptKey linkv1.AttemptKey
}

func newInboxKey(message *linkv1.AgentMessage) mergeKey {
	switch kind := message.GetKind().(type) {
	case *linkv1.AgentMessage_Progress:
		return mergeKey{"progress", kind.Progress.GetAttempt().Key()}
	case *linkv1.AgentMessage_Result:
		return mergeKey{"result", kind.Result.GetAttempt().Key()}
	}
	return mergeKey{}
}

func newInbox(maxBytes int) *inbox {
	return &inbox{
		maxBytes: maxBytes, latest: map[mergeKey]*queuedMessage{},
		notEmpty: make(chan struct{}, 1), notFull: make(chan struct{}, 1),
	}
}

// awaitRoom waits until there may be room, or until the context ends.
func (i *inbox) awaitRoom(ctx context.Context) {
	select {
	case <-i.notFull:
	case <-ctx.Done():
	}
}

// push adds a message if there is room, and returns the message that it supersedes, if any. An empty inbox has room for any message.
func (i *inbox) push(message *linkv1.AgentMessage) (superseded *linkv1.AgentMessage, added bool) {
	key, size := newInboxKey(message), memoryCost(message)
	i.mu.Lock()
	defer i.mu.Unlock()
	previous := i.latest[key]
	if previous != nil {
		size -= previous.size
	}
	if len(i.messages) > 0 && size > 0 && i.bytes+size > i.maxBytes {
		return nil, false
	}
	i.bytes += size
	if previous != nil {
		superseded, previous.AgentMessage = previous.AgentMessage, message
		previous.size += size
		return superseded, true
	}
	i.add(&queuedMessage{message, key, size})
	return nil, true
}

func (i *inbox) add(message *queuedMessage) {
	i.messages = append(i.messages, message)
	if message.mergeKey != (mergeKey{}) {
		i.latest[message.mergeKey] = message
	}
	notify(i.notEmpty)
}

// tryPop takes the oldest message.
func (i *inbox) tryPop() (message *linkv1.AgentMessage, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.messages) == 0 {
		return nil, false
	}
	oldest := i.messages[0]
	i.messages[0] = nil
	i.messages = i.messages[1:]
	delete(i.latest, oldest.mergeKey)
	i.bytes -= oldest.size
	if len(i.messages) > 0 {
		notify(i.notEmpty)
	}
	notify(i.notFull)
	return oldest.AgentMessage, true
}

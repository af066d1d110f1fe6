package link

import (
	"errors"
	"fmt"
	"testing"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// newSilentSession returns the session of an agent that grants credit and reads nothing.
func newSilentSession(agent Agent, waiting *namespaceByteLimiter) *session {
	sess, _ := newSession(Limits{}.withDefaults())
	sess.agent, sess.queueLimiter = agent, waiting
	sess.grantCredit(&linkv1.Credit{Granted: 1000})
	return sess
}

func largeAssign(bytes int) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Assign{Assign: &linkv1.Assign{Payload: make([]byte, bytes)}}}
}

// fillNamespace sends to as many agents of a namespace until there is no room, and returns how many bytes wait for them.
func fillNamespace(namespace string, agents int, waiting *namespaceByteLimiter) (sessions []*session, totalBytes int) {
	for n := range agents {
		sess := newSilentSession(Agent{namespace, fmt.Sprint(n)}, waiting)
		for sess.send(largeAssign(500<<10)) == nil {
			continue
		}
		totalBytes += sess.queue.bytes
		sessions = append(sessions, sess)
	}
	return sessions, totalBytes
}

func TestQueuedBytesOfANamespaceAreBounded(t *testing.T) {
	waiting := newNamespaceByteLimiter(Limits{}.withDefaults().QueueBytesPerNamespace)
	sessions, sum := fillNamespace("hostile", 40, waiting)
	if sum > 64<<20 || sum < 60<<20 || waiting.bytes["hostile"] != sum {
		t.Errorf("%d bytes wait, %d are counted", sum, waiting.bytes["hostile"])
	}
	if err := newSilentSession(Agent{"ns", "a"}, waiting).send(largeAssign(500 << 10)); err != nil {
		t.Errorf("an agent of another namespace: %v", err)
	}
	for _, sess := range sessions {
		if err := sess.send(newCancel("t")); err != nil {
			t.Errorf("a Cancel: %v", err)
		}
		if err := sess.send(largeAssign(500 << 10)); !errors.Is(err, ErrNoRoom) {
			t.Errorf("one more: %v", err)
		}
	}
	for _, sess := range sessions {
		sess.closeQueue()
		if err := sess.send(largeAssign(1)); err == nil {
			t.Error("queued after the end")
		}
	}
	if got := waiting.bytes["hostile"]; got != 0 {
		t.Errorf("%d bytes are counted after all have left", got)
	}
}

// A message that is being written still counts: a mute agent holds it as well.
func TestQueuedBytesCountUntilTheyAreSent(t *testing.T) {
	waiting := newNamespaceByteLimiter(1 << 20)
	sess := newSilentSession(Agent{"ns", "a"}, waiting)
	if err := sess.send(largeAssign(100)); err != nil {
		t.Fatal(err)
	}
	counted := 0
	to := &fakeStream{}
	to.afterSend = func() { counted = waiting.bytes["ns"]; sess.end(nil) }
	sess.writeQueue(to)
	if counted < 100 || waiting.bytes["ns"] != 0 {
		t.Errorf("%d bytes were counted while it was written, %d afterwards", counted, waiting.bytes["ns"])
	}
}

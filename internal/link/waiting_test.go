package link

import (
	"errors"
	"fmt"
	"testing"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// muteSession returns the session of an agent that grants credit and reads nothing.
func muteSession(agent Agent, waiting *waitingSum) *session {
	made, _ := newSession(Limits{}.withDefaults())
	made.agent, made.waiting = agent, waiting
	made.grant(&linkv1.Credit{Granted: 1000})
	return made
}

func bulky(bytes int) *linkv1.OperatorMessage {
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Assign{Assign: &linkv1.Assign{Payload: make([]byte, bytes)}}}
}

// fill sends to as many agents of a namespace until there is no room, and returns how many bytes wait for them.
func fill(namespace string, agents int, waiting *waitingSum) (mute []*session, sum int) {
	for n := range agents {
		hosted := muteSession(Agent{namespace, fmt.Sprint(n)}, waiting)
		for hosted.send(bulky(500<<10)) == nil {
			continue
		}
		sum += hosted.queue.bytes
		mute = append(mute, hosted)
	}
	return mute, sum
}

func TestWhatWaitsForANamespaceIsBounded(t *testing.T) {
	waiting := newWaitingSum(Limits{}.withDefaults().QueueBytesPerNamespace)
	mute, sum := fill("hostile", 40, waiting)
	if sum > 64<<20 || sum < 60<<20 || waiting.bytes["hostile"] != sum {
		t.Errorf("%d bytes wait, %d are counted", sum, waiting.bytes["hostile"])
	}
	if err := muteSession(Agent{"ns", "a"}, waiting).send(bulky(500 << 10)); err != nil {
		t.Errorf("an agent of another namespace: %v", err)
	}
	for _, hosted := range mute {
		if err := hosted.send(cancelOf("t")); err != nil {
			t.Errorf("a Cancel: %v", err)
		}
		if err := hosted.send(bulky(500 << 10)); !errors.Is(err, ErrNoRoom) {
			t.Errorf("one more: %v", err)
		}
	}
	for _, hosted := range mute {
		hosted.release()
		if err := hosted.send(bulky(1)); err == nil {
			t.Error("queued after the end")
		}
	}
	if got := waiting.bytes["hostile"]; got != 0 {
		t.Errorf("%d bytes are counted after all have left", got)
	}
}

// A message that is being written still counts: a mute agent holds it as well.
func TestWhatIsWrittenCountsUntilItIsSent(t *testing.T) {
	waiting := newWaitingSum(1 << 20)
	hosted := muteSession(Agent{"ns", "a"}, waiting)
	if err := hosted.send(bulky(100)); err != nil {
		t.Fatal(err)
	}
	counted := 0
	to := &outlet{}
	to.after = func() { counted = waiting.bytes["ns"]; hosted.end(nil) }
	hosted.write(to)
	if counted < 100 || waiting.bytes["ns"] != 0 {
		t.Errorf("%d bytes were counted while it was written, %d afterwards", counted, waiting.bytes["ns"])
	}
}

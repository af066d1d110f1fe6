package link

import (
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

func newProgress(epoch int64, message string) *linkv1.AgentMessage {
	attempt := &linkv1.Attempt{TaskUid: "u", Epoch: epoch}
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: attempt, Message: message}}}
}

func newCredit(granted int64) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted}}}
}

// An agent may send the smallest possible messages, each of another attempt. Their size in memory counts, not that on the wire.
func TestFullInboxTakesNoMoreMemoryThanItMay(t *testing.T) {
	const limit = 2 << 20
	for reason, message := range map[string]func(n int64) *linkv1.AgentMessage{
		"progress": func(n int64) *linkv1.AgentMessage { return newProgress(n, "m") },
		"credit":   newCredit,
	} {
		t.Run(reason, func(t *testing.T) {
			heapBefore, inbox := heapBytes(), newInbox(limit)
			for n := int64(1); ; n++ {
				text, err := proto.Marshal(message(n))
				if err != nil {
					t.Fatal(err)
				}
				received := &linkv1.AgentMessage{}
				if err := proto.Unmarshal(text, received); err != nil {
					t.Fatal(err)
				}
				if _, added := inbox.push(received); !added {
					break
				}
			}
			if taken := int64(heapBytes()) - int64(heapBefore); taken > limit*5/4 {
				t.Errorf("%d messages take %d KiB", len(inbox.messages), taken>>10)
			}
			runtime.KeepAlive(inbox)
		})
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestInboxCountsWhatItHolds(t *testing.T) {
	box := newInbox(10 * messageOverheadBytes)
	push := func(message *linkv1.AgentMessage, wantAdded, wantSuperseded bool) {
		t.Helper()
		if superseded, added := box.push(message); added != wantAdded || (superseded != nil) != wantSuperseded {
			t.Errorf("added %t, superseded %v", added, superseded)
		}
	}
	for epoch := range int64(9) {
		push(newProgress(epoch, ""), true, false)
	}
	push(newProgress(9, ""), false, false)
	push(newProgress(8, "a message"), true, true)
	push(newProgress(8, string(make([]byte, 2*messageOverheadBytes))), false, false) // replacements need room, too
	push(newProgress(8, ""), true, true)
	for epoch := range int64(9) {
		if message, found := box.tryPop(); !found || message.GetProgress().GetAttempt().GetEpoch() != epoch {
			t.Errorf("got %v, want epoch %d", message, epoch)
		}
	}
	if _, found := box.tryPop(); found || box.bytes != 0 || len(box.latest) != 0 {
		t.Errorf("an empty inbox holds %d bytes, %d keys", box.bytes, len(box.latest))
	}
	push(newProgress(1, string(make([]byte, 20*messageOverheadBytes))), true, false) // else it would never get in
}

// A Hello is the message that grows most when it is decoded.
func TestHelloCostsNoMoreMemoryThanIsCounted(t *testing.T) {
	for reason, attempt := range map[string]*linkv1.Attempt{
		"empty attempts": {},
		"short names":    {Namespace: "n", Task: "t", TaskUid: "u", Attempt: 1, Epoch: 1},
	} {
		t.Run(reason, func(t *testing.T) {
			hello := &linkv1.Hello{}
			for range maxRunning {
				hello.Running = append(hello.Running, attempt)
			}
			for range maxResults {
				hello.Unacknowledged = append(hello.Unacknowledged, &linkv1.Result{Attempt: attempt, Value: []byte("7"), Reason: "r"})
			}
			text, err := proto.Marshal(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: hello}})
			if err != nil {
				t.Fatal(err)
			}
			const hellos = 20
			heapBefore, decoded, cost := heapBytes(), make([]linkv1.AgentMessage, hellos), 0
			for n := range hellos {
				if err := proto.Unmarshal(text, &decoded[n]); err != nil {
					t.Fatal(err)
				}
				cost += memoryCost(&decoded[n])
			}
			if taken := int(heapBytes()) - int(heapBefore); taken > cost {
				t.Errorf("%d Hellos take %d KiB, and %d KiB are counted", hellos, taken>>10, cost>>10)
			} else {
				t.Logf("%d of %d KiB", taken>>10, cost>>10)
			}
			runtime.KeepAlive(decoded)
		})
	}
}

package link

import (
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

func progressOf(epoch int64, message string) *linkv1.AgentMessage {
	attempt := &linkv1.Attempt{TaskUid: "u", Epoch: epoch}
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: attempt, Message: message}}}
}

func creditOf(granted int64) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted}}}
}

// An agent may send the smallest possible messages, each of another attempt. Their size in memory counts, not that on the wire.
func TestFullInboxTakesNoMoreMemoryThanItMay(t *testing.T) {
	const most = 2 << 20
	for reason, message := range map[string]func(n int64) *linkv1.AgentMessage{
		"progress": func(n int64) *linkv1.AgentMessage { return progressOf(n, "m") },
		"credit":   creditOf,
	} {
		t.Run(reason, func(t *testing.T) {
			before, full := heap(), newInbox(most)
			for n := int64(1); ; n++ {
				text, err := proto.Marshal(message(n))
				if err != nil {
					t.Fatal(err)
				}
				received := &linkv1.AgentMessage{}
				if err := proto.Unmarshal(text, received); err != nil {
					t.Fatal(err)
				}
				if _, added := full.push(received); !added {
					break
				}
			}
			if taken := int64(heap()) - int64(before); taken > most*5/4 {
				t.Errorf("%d messages take %d KiB", len(full.waiting), taken>>10)
			}
			runtime.KeepAlive(full)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestInboxCountsWhatItHolds(t *testing.T) {
	box := newInbox(10 * messageOverhead)
	push := func(message *linkv1.AgentMessage, wantAdded, wantSuperseded bool) {
		t.Helper()
		if superseded, added := box.push(message); added != wantAdded || (superseded != nil) != wantSuperseded {
			t.Errorf("added %t, superseded %v", added, superseded)
		}
	}
	for epoch := range int64(9) {
		push(progressOf(epoch, ""), true, false)
	}
	push(progressOf(9, ""), false, false)
	push(progressOf(8, "a message"), true, true)
	push(progressOf(8, string(make([]byte, 2*messageOverhead))), false, false) // replacements need room, too
	push(progressOf(8, ""), true, true)
	for epoch := range int64(9) {
		if message, found := box.first(); !found || message.GetProgress().GetAttempt().GetEpoch() != epoch {
			t.Errorf("got %v, want epoch %d", message, epoch)
		}
	}
	if _, found := box.first(); found || box.bytes != 0 || len(box.latest) != 0 {
		t.Errorf("an empty inbox holds %d bytes, %d keys", box.bytes, len(box.latest))
	}
	push(progressOf(1, string(make([]byte, 20*messageOverhead))), true, false) // else it would never get in
}

// A Hello is the message that grows most when it is decoded.
func TestHelloCostsNoMoreMemoryThanIsCounted(t *testing.T) {
	for reason, attempt := range map[string]*linkv1.Attempt{
		"empty attempts": {},
		"short names":    {Namespace: "n", Task: "t", TaskUid: "u", Attempt: 1, Epoch: 1},
	} {
		t.Run(reason, func(t *testing.T) {
			full := &linkv1.Hello{}
			for range mostRunning {
				full.Running = append(full.Running, attempt)
			}
			for range mostResults {
				full.Unacknowledged = append(full.Unacknowledged, &linkv1.Result{Attempt: attempt, Value: []byte("7"), Reason: "r"})
			}
			text, err := proto.Marshal(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: full}})
			if err != nil {
				t.Fatal(err)
			}
			const many = 20
			before, decoded, counted := heap(), make([]linkv1.AgentMessage, many), 0
			for n := range many {
				if err := proto.Unmarshal(text, &decoded[n]); err != nil {
					t.Fatal(err)
				}
				counted += costOf(&decoded[n])
			}
			if taken := int(heap()) - int(before); taken > counted {
				t.Errorf("%d Hellos take %d KiB, and %d KiB are counted", many, taken>>10, counted>>10)
			} else {
				t.Logf("%d of %d KiB", taken>>10, counted>>10)
			}
			runtime.KeepAlive(decoded)
		})
	}
}

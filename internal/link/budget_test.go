package link

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// However many namespaces take all they can, the next one finds room.
func TestHoldersOfABudgetLeaveRoomForOthers(t *testing.T) {
	const most = 120_000
	for greedy := 1; greedy <= 11; greedy++ {
		b := newBudget(most)
		for more := true; more; {
			more = false
			for n := range greedy {
				more = b.take(fmt.Sprint(n), 10) || more
			}
		}
		free := most - b.sum
		if want := most / (greedy + 1); free < want || free > want+10*(greedy+1) {
			t.Errorf("%d holders leave %d of %d free, want %d", greedy, free, most, want)
		}
		if !b.take("another", free/2) {
			t.Errorf("%d holders leave %d free, of which another does not get half", greedy, free)
		}
	}
}

func TestAllowanceGivesBackWhatItTook(t *testing.T) {
	b := newBudget(1000)
	one, other := b.forNamespace("ns"), b.forNamespace("ns")
	if !one.take(300) || !other.take(200) || other.take(1) {
		t.Fatal("two streams of one namespace may take half together")
	}
	one.give(100)
	one.release()
	one.release()
	one.give(100)
	if one.take(1) {
		t.Error("a stream that has ended took something")
	}
	if b.sum != 200 || b.held["namespace/ns"] != 200 {
		t.Errorf("%d are held, %v", b.sum, b.held)
	}
	other.release()
	if b.sum != 0 || len(b.held) != 0 {
		t.Errorf("%d are held, %v", b.sum, b.held)
	}
}

// The documented defaults are the real ones.
func TestBoundOfWhatIsReceivedIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/explanation/security.md")
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{}.withDefaults()
	for _, want := range []string{
		fmt.Sprintf("at most %d MiB of all agents together, and %d MiB of one namespace", limits.ReceivedBytes>>20, limits.ReceivedBytes>>21),
		fmt.Sprintf("up to %d KiB", windowBytes>>10),
		fmt.Sprintf("up to %d MiB, the largest message", limits.FrameBytes>>20),
		fmt.Sprintf("%d bytes for each frame, %d for each message and %d for each entry", frameOverhead, messageOverhead, entryOverhead),
		fmt.Sprintf("below %d KiB", blockBytes>>10),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/explanation/security.md does not say %q", want)
		}
	}
}

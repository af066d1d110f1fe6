package link

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// However many namespaces take all they can, the next one finds room.
func TestHoldersOfABudgetLeaveRoomForOthers(t *testing.T) {
	const limit = 120_000
	for greedy := 1; greedy <= 11; greedy++ {
		b := newMemoryBudget(limit)
		for more := true; more; {
			more = false
			for n := range greedy {
				more = b.reserve(fmt.Sprint(n), 10) || more
			}
		}
		free := limit - b.total
		if want := limit / (greedy + 1); free < want || free > want+10*(greedy+1) {
			t.Errorf("%d holders leave %d of %d free, want %d", greedy, free, limit, want)
		}
		if !b.reserve("another", free/2) {
			t.Errorf("%d holders leave %d free, of which another does not get half", greedy, free)
		}
	}
}

func TestReservationReleasesWhatItReserved(t *testing.T) {
	b := newMemoryBudget(1000)
	one, other := b.forNamespace("ns"), b.forNamespace("ns")
	if !one.reserve(300) || !other.reserve(200) || other.reserve(1) {
		t.Fatal("two streams of one namespace may take half together")
	}
	one.release(100)
	one.releaseAll()
	one.releaseAll()
	one.release(100)
	if one.reserve(1) {
		t.Error("a stream that has ended took something")
	}
	if b.total != 200 || b.reservedByHolder["namespace/ns"] != 200 {
		t.Errorf("%d are held, %v", b.total, b.reservedByHolder)
	}
	other.releaseAll()
	if b.total != 0 || len(b.reservedByHolder) != 0 {
		t.Errorf("%d are held, %v", b.total, b.reservedByHolder)
	}
}

// The documented defaults are the real ones.
func TestReceiveLimitsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/explanation/security.md")
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{}.withDefaults()
	for _, want := range []string{
		fmt.Sprintf("at most %d MiB of all agents together, and %d MiB of one namespace", limits.ReceivedBytes>>20, limits.ReceivedBytes>>21),
		fmt.Sprintf("up to %d KiB", streamWindowBytes>>10),
		fmt.Sprintf("up to %d MiB, the largest message", limits.FrameBytes>>20),
		fmt.Sprintf("%d bytes for each frame, %d for each message and %d for each entry", frameOverheadBytes, messageOverheadBytes,
			entryOverheadBytes),
		fmt.Sprintf("below %d KiB", countingThresholdBytes>>10),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/explanation/security.md does not say %q", want)
		}
	}
}

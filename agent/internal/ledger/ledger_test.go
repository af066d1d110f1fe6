package ledger

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

func newAttempt(task string, epoch int64) *linkv1.Attempt {
	return &linkv1.Attempt{Task: task, TaskUid: task, Attempt: 1, Epoch: epoch}
}

func newResult(of *linkv1.Attempt) *linkv1.Result { return &linkv1.Result{Attempt: of} }

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		reason  string
		before  func(l *Ledger)
		attempt *linkv1.Attempt
		start   bool
		word    string
	}{
		{"the first", func(*Ledger) {}, newAttempt("a", 1), true, ""},
		{"said twice", func(l *Ledger) { l.Decide(newAttempt("a", 1)) }, newAttempt("a", 1), false, ""},
		{"said twice, ended", func(l *Ledger) { l.Decide(newAttempt("a", 1)); l.StoreResult(newResult(newAttempt("a", 1))) }, newAttempt("a", 1),
			false, ""},
		{"ended and settled", func(l *Ledger) {
			l.Decide(newAttempt("a", 1))
			l.StoreResult(newResult(newAttempt("a", 1)))
			l.Acknowledge(newAttempt("a", 1).Key())
		}, newAttempt("a", 1), false, ReasonStaleEpoch},
		{"older", func(l *Ledger) { l.Decide(newAttempt("a", 5)); l.StoreResult(newResult(newAttempt("a", 5))) }, newAttempt("a", 4), false,
			ReasonStaleEpoch},
		{"older, of other work", func(l *Ledger) { l.Decide(newAttempt("a", 5)) }, newAttempt("b", 4), true, ""},
		{"older than what was declined", func(l *Ledger) { l.Drain(); l.Decide(newAttempt("a", 5)); l.draining = false }, newAttempt("a", 4),
			false, ReasonStaleEpoch},
		{"newer than what runs", func(l *Ledger) { l.Decide(newAttempt("a", 1)) }, newAttempt("a", 2), false, ReasonRunning},
		{"no slot", func(l *Ledger) { l.Decide(newAttempt("a", 1)); l.Decide(newAttempt("b", 2)) }, newAttempt("c", 3), false, ReasonNoSlot},
		{"draining", func(l *Ledger) { l.Drain() }, newAttempt("a", 1), false, ReasonDraining},
		{"without a task", func(*Ledger) {}, newAttempt("", 1), false, ReasonMalformed},
		{"without an epoch", func(*Ledger) {}, newAttempt("a", 0), false, ReasonMalformed},
	} {
		t.Run(c.reason, func(t *testing.T) {
			l := New(2)
			c.before(l)
			got := l.Decide(c.attempt)
			if got.Start != c.start || got.Reason != c.word || (got.Reason == "") != (got.Message == "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestItemsOfATaskAreIndependent(t *testing.T) {
	l := New(3)
	whole, first, second := newAttempt("a", 3), newAttempt("a", 2), newAttempt("a", 1)
	first.Item, second.Item = proto.Int32(0), proto.Int32(1)
	for _, a := range []*linkv1.Attempt{whole, first, second} {
		if got := l.Decide(a); !got.Start {
			t.Errorf("%v: %+v", a, got)
		}
	}
}

func TestUnacknowledgedResultsLimitFreeSlots(t *testing.T) {
	l := New(2)
	for epoch := range int64(maxUnacknowledged) {
		if l.FreeSlots() != 2 {
			t.Fatalf("free %d with %d results", l.FreeSlots(), epoch)
		}
		attempt := newAttempt(fmt.Sprint("task", epoch), epoch+1)
		l.Decide(attempt)
		l.StoreResult(newResult(attempt))
	}
	if l.FreeSlots() != 0 {
		t.Errorf("free %d with %d results", l.FreeSlots(), maxUnacknowledged)
	}
	l.Acknowledge(newAttempt("task7", 8).Key())
	if l.FreeSlots() != 2 || len(l.Unacknowledged()) != maxUnacknowledged-1 {
		t.Errorf("free %d after an acknowledgement", l.FreeSlots())
	}
}

// However much was assigned, memory is bounded, and what is older than all that is remembered is refused.
func TestForgottenEpochsAreStillRefused(t *testing.T) {
	l := New(1)
	for epoch := int64(1); epoch <= 5*maxEpochs; epoch++ {
		attempt := newAttempt(fmt.Sprint(epoch), epoch)
		if !l.Decide(attempt).Start {
			t.Fatalf("epoch %d was not started", epoch)
		}
		l.StoreResult(newResult(attempt))
		l.Acknowledge(attempt.Key())
	}
	if len(l.newestEpochs) > maxEpochs {
		t.Errorf("%d epochs are remembered", len(l.newestEpochs))
	}
	if got := l.Decide(newAttempt("1", 1)); got.Reason != ReasonStaleEpoch {
		t.Errorf("the first epoch again: %+v", got)
	}
}

// Whatever an operator sends, in whatever order, the invariants hold.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		l := New(slots)
		newest := map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			attempt := newAttempt(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "task"), rapid.Int64Range(1, 20).Draw(t, "epoch"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				if l.Decide(attempt).Start && attempt.GetEpoch() <= newest[attempt.GetTask()] {
					t.Fatalf("started epoch %d after %d", attempt.GetEpoch(), newest[attempt.GetTask()])
				}
				newest[attempt.GetTask()] = max(newest[attempt.GetTask()], attempt.GetEpoch())
			case 2:
				if running := l.Running(); len(running) > 0 {
					l.StoreResult(newResult(running[0]))
				}
			case 3:
				l.Acknowledge(attempt.Key())
			}
			if running := len(l.Running()); running > slots || l.FreeSlots() > slots-running {
				t.Fatalf("%d run and %d are free in %d slots", running, l.FreeSlots(), slots)
			}
		}
	})
}

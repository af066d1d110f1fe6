package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func TestWritesOfATask(t *testing.T) {
	for takes, maximum := range map[time.Duration]int{
		500 * time.Millisecond: 1, // finished
		3 * time.Second:        2, // running, finished
	} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
				sim.submit("t", behavior{duration: takes})
				sim.advance(time.Minute)
				sim.assertCompleted(t, "t", 1)
				if got := sim.store.writeCount("t"); got != maximum {
					t.Errorf("%d writes, want %d", got, maximum)
				}
			})
		})
	}
}

func TestProgressIsWrittenEveryTenSeconds(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 35 * time.Second, reportsProgress: true})
		sim.advance(34 * time.Second)
		if status := sim.status("t"); status.Progress < 80 || status.Progress >= 100 {
			t.Errorf("progress %d", status.Progress)
		}
		if got := sim.store.writeCount("t"); got != 4 { // at 1, 11, 21 and 31 s
			t.Errorf("%d writes in 34 s, want 4", got)
		}
		sim.advance(10 * time.Second)
		sim.assertCompleted(t, "t", 1)
	})
}

func TestWaitIsWrittenOncePerReason(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("long", behavior{duration: 2 * time.Minute})
		sim.advance(time.Second)
		sim.submit("t", behavior{duration: time.Second})
		sim.advance(9 * time.Second)
		if got := sim.store.writeCount("t"); got != 0 {
			t.Errorf("a wait of 9 s for a slot is worth %d writes", got)
		}
		for range 10 {
			sim.submit("other"+since(time.Now()), behavior{duration: time.Second}) // each triggers a pass of the dispatcher
			sim.advance(5 * time.Second)
		}
		if got, status := sim.store.writeCount("t"), sim.status("t"); got != 1 || status.Reason != string(v1alpha1.ReasonNoFreeSlot) {
			t.Errorf("%d writes, want one: %+v", got, status)
		}
		sim.advance(2 * time.Minute)
		sim.assertCompleted(t, "t", 1)
	})
}

// The change missing from the cache is our own write, which does not trigger a reconcile.
func TestStaleReadNeitherLosesNorRepeatsAnything(t *testing.T) {
	for _, lag := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
				sim.cacheLag.Store(int64(lag))
				for n := range 10 {
					sim.submit(fmt.Sprint("t", n), behavior{duration: time.Second + time.Duration(n)*30*time.Millisecond})
				}
				sim.advance(5 * time.Minute)
				for n := range 10 {
					sim.assertCompleted(t, fmt.Sprint("t", n), 1)
					if got := sim.store.writeCount(fmt.Sprint("t", n)); got > 4 {
						t.Errorf("%d writes", got)
					}
				}
			})
		})
	}
}

func TestResultThatComesRightAfterItsAssignmentIsWritten(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.cacheLag.Store(int64(200 * time.Millisecond))
		sim.submit("t", behavior{duration: 1100 * time.Millisecond})
		sim.advance(4 * time.Second)
		sim.assertCompleted(t, "t", 1)
	})
}

package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func TestWritesOfATask(t *testing.T) {
	for takes, most := range map[time.Duration]int{
		500 * time.Millisecond: 1, // finished
		3 * time.Second:        2, // running, finished
	} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
				w.submit("t", work{takes: takes})
				w.pass(time.Minute)
				w.completes(t, "t", 1)
				if got := w.store.written("t"); got != most {
					t.Errorf("%d writes, want %d", got, most)
				}
			})
		})
	}
}

func TestProgressIsWrittenEveryTenSeconds(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 35 * time.Second, reports: true})
		w.pass(34 * time.Second)
		if status := w.status("t"); status.Progress < 80 || status.Progress >= 100 {
			t.Errorf("progress %d", status.Progress)
		}
		if got := w.store.written("t"); got != 4 { // at 1, 11, 21 and 31 s
			t.Errorf("%d writes in 34 s, want 4", got)
		}
		w.pass(10 * time.Second)
		w.completes(t, "t", 1)
	})
}

func TestWaitIsWrittenOncePerReason(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("long", work{takes: 2 * time.Minute})
		w.pass(time.Second)
		w.submit("t", work{takes: time.Second})
		w.pass(9 * time.Second)
		if got := w.store.written("t"); got != 0 {
			t.Errorf("a wait of 9 s for a slot is worth %d writes", got)
		}
		for range 10 {
			w.submit("other"+since(time.Now()), work{takes: time.Second}) // each triggers a pass of the board
			w.pass(5 * time.Second)
		}
		if got, status := w.store.written("t"), w.status("t"); got != 1 || status.Reason != string(v1alpha1.ReasonNoFreeSlot) {
			t.Errorf("%d writes, want one: %+v", got, status)
		}
		w.pass(2 * time.Minute)
		w.completes(t, "t", 1)
	})
}

// The change missing from the cache is our own write, which does not trigger a reconcile.
func TestStaleReadNeitherLosesNorRepeatsAnything(t *testing.T) {
	for _, lag := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
				w.lag.Store(int64(lag))
				for n := range 10 {
					w.submit(fmt.Sprint("t", n), work{takes: time.Second + time.Duration(n)*30*time.Millisecond})
				}
				w.pass(5 * time.Minute)
				for n := range 10 {
					w.completes(t, fmt.Sprint("t", n), 1)
					if got := w.store.written(fmt.Sprint("t", n)); got > 4 {
						t.Errorf("%d writes", got)
					}
				}
			})
		})
	}
}

func TestResultThatComesRightAfterItsAssignmentIsWritten(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.lag.Store(int64(200 * time.Millisecond))
		w.submit("t", work{takes: 1100 * time.Millisecond})
		w.pass(4 * time.Second)
		w.completes(t, "t", 1)
	})
}

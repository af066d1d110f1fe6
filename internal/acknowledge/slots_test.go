package acknowledge

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Namespaces with unresponsive workers delay another one by a single request at most, however many they are.
func TestSilentNamespacesDoNotKeepOthersWaiting(t *testing.T) {
	for _, silent := range []int{1, 8, 100} {
		t.Run(fmt.Sprint(silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlots(most)
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for n := range silent * 2 * mostOfOne {
					all.Go(func() {
						for s.take(ctx, fmt.Sprint("silent-", n%silent)) == nil {
							time.Sleep(longestWait)
							s.giveBack(fmt.Sprint("silent-", n%silent))
						}
					})
				}
				time.Sleep(time.Minute + longestWait/2)
				for range 3 {
					began := time.Now()
					if err := s.take(ctx, "quick"); err != nil {
						t.Fatal(err)
					}
					if waited := time.Since(began); waited > longestWait {
						t.Errorf("waited for %s", waited)
					}
					s.giveBack("quick")
				}
				stop()
				all.Wait()
				if len(s.namespaces) > 0 || s.free != most {
					t.Errorf("in the end %d namespaces are remembered, and %d slots are free", len(s.namespaces), s.free)
				}
			})
		})
	}
}

// A canceled waiter leaks no slot.
func TestWhatGivesUpTakesNoSlot(t *testing.T) {
	s := newSlots(1)
	if err := s.take(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	for range 100 {
		if err := s.take(over, "b"); err == nil {
			t.Fatal("two have the only slot")
		}
	}
	s.giveBack("a")
	for range 100 { // a slot granted at the same moment is given back
		if s.take(over, "b") == nil {
			s.giveBack("b")
		}
	}
	if len(s.namespaces) > 0 || s.free != 1 {
		t.Errorf("%d namespaces are remembered, and %d slots are free", len(s.namespaces), s.free)
	}
}

package ack

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Namespaces with unresponsive workers delay another one by a single request at most, however many they are.
func TestSilentNamespacesDoNotDelayOthers(t *testing.T) {
	for _, silent := range []int{1, 8, 100} {
		t.Run(fmt.Sprint(silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := newFairLimiter(maxRequests)
				ctx, stop := context.WithCancel(t.Context())
				var workers sync.WaitGroup
				for n := range silent * 2 * maxRequestsPerNamespace {
					workers.Go(func() {
						for limiter.acquire(ctx, fmt.Sprint("silent-", n%silent)) == nil {
							time.Sleep(maxInterval)
							limiter.release(fmt.Sprint("silent-", n%silent))
						}
					})
				}
				time.Sleep(time.Minute + maxInterval/2)
				for range 3 {
					began := time.Now()
					if err := limiter.acquire(ctx, "quick"); err != nil {
						t.Fatal(err)
					}
					if waited := time.Since(began); waited > maxInterval {
						t.Errorf("waited for %s", waited)
					}
					limiter.release("quick")
				}
				stop()
				workers.Wait()
				if len(limiter.namespaces) > 0 || limiter.free != maxRequests {
					t.Errorf("in the end %d namespaces are remembered, and %d slots are free", len(limiter.namespaces), limiter.free)
				}
			})
		})
	}
}

// A canceled waiter leaks no slot.
func TestCanceledWaiterTakesNoSlot(t *testing.T) {
	limiter := newFairLimiter(1)
	if err := limiter.acquire(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	canceled, stop := context.WithCancel(t.Context())
	stop()
	for range 100 {
		if err := limiter.acquire(canceled, "b"); err == nil {
			t.Fatal("two have the only slot")
		}
	}
	limiter.release("a")
	for range 100 { // a slot granted at the same moment is given back
		if limiter.acquire(canceled, "b") == nil {
			limiter.release("b")
		}
	}
	if len(limiter.namespaces) > 0 || limiter.free != 1 {
		t.Errorf("%d namespaces are remembered, and %d slots are free", len(limiter.namespaces), limiter.free)
	}
}

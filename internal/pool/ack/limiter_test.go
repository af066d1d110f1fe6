package ack

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Unresponsive workers delay another namespace, or another pool of theirs, by a single request at most, however many they are. If more
// pools have some than there are slots, they take turns.
func TestSilentWorkersDoNotDelayOthers(t *testing.T) {
	for _, silent := range []int{1, 8, 100} {
		for where, silentPool := range map[string]func(n int) types.NamespacedName{
			"in other namespaces": func(n int) types.NamespacedName {
				return types.NamespacedName{Namespace: fmt.Sprint("silent-", n%silent), Name: "pool"}
			},
			"in other pools of the namespace": func(n int) types.NamespacedName {
				return types.NamespacedName{Namespace: "quick", Name: fmt.Sprint("silent-", n%silent)}
			},
		} {
			t.Run(fmt.Sprint(silent, " ", where), func(t *testing.T) {
				longest := time.Duration(silent/maxRequestsPerNamespace+1) * maxInterval
				synctest.Test(t, func(t *testing.T) { requireQuickAnswers(t, silent, silentPool, longest) })
			})
		}
	}
}

// requireQuickAnswers requires that a pool waits no longer than this while workers of silent pools want every other slot.
func requireQuickAnswers(t *testing.T, silent int, silentPool func(n int) types.NamespacedName, longest time.Duration) {
	t.Helper()
	limiter, quick := newFairLimiter(maxRequests), types.NamespacedName{Namespace: "quick", Name: "quick"}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for n := range silent * 2 * maxRequestsPerNamespace {
		workers.Go(func() {
			for limiter.acquire(ctx, silentPool(n)) == nil {
				time.Sleep(maxInterval)
				limiter.release(silentPool(n))
			}
		})
	}
	time.Sleep(time.Minute + maxInterval/2)
	for range 3 {
		began := time.Now()
		if err := limiter.acquire(ctx, quick); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > longest {
			t.Errorf("waited for %s", waited)
		}
		limiter.release(quick)
	}
	stop()
	workers.Wait()
	if len(limiter.namespaces) > 0 || limiter.free != maxRequests {
		t.Errorf("in the end %d namespaces are remembered, and %d slots are free", len(limiter.namespaces), limiter.free)
	}
}

// A canceled waiter leaks no slot.
func TestCanceledWaiterTakesNoSlot(t *testing.T) {
	limiter := newFairLimiter(1)
	a, b := types.NamespacedName{Namespace: "a", Name: "pool"}, types.NamespacedName{Namespace: "b", Name: "pool"}
	if err := limiter.acquire(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	canceled, stop := context.WithCancel(t.Context())
	stop()
	for range 100 {
		if err := limiter.acquire(canceled, b); err == nil {
			t.Fatal("two have the only slot")
		}
	}
	limiter.release(a)
	for range 100 { // a slot granted at the same moment is given back
		if limiter.acquire(canceled, b) == nil {
			limiter.release(b)
		}
	}
	if len(limiter.namespaces) > 0 || limiter.free != 1 {
		t.Errorf("%d namespaces are remembered, and %d slots are free", len(limiter.namespaces), limiter.free)
	}
}

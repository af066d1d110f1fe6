package kit

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is how long one reconcile may take. Requests time out after half a minute.
const stuckAfter = 15 * time.Minute

// inFlight tracks the reconciles that have not returned. Its check is for a liveness probe: a controller whose reconciles hang does
// nothing, while the Lease is renewed and no other replica takes over.
type inFlight struct {
	mu      sync.Mutex
	next    int
	started map[int]reconcileStart
}

type reconcileStart struct {
	controller string
	at         time.Time
}

// begin records a reconcile, and returns the function that ends it.
func (f *inFlight) begin(controller string) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started == nil {
		f.started = map[int]reconcileStart{}
	}
	f.next++
	id := f.next
	f.started[id] = reconcileStart{controller, time.Now()}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.started, id)
	}
}

// check implements healthz.Checker.
func (f *inFlight) check(*http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, start := range f.started {
		if age := time.Since(start.at); age > stuckAfter {
			return fmt.Errorf("a reconcile of controller %s has not returned for %s", start.controller, age.Round(time.Second))
		}
	}
	return nil
}

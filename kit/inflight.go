package kit

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is how long one reconcile may take. Requests end after half a minute, whatever the API server does.
const stuckAfter = 15 * time.Minute

// inFlight tracks the reconciles that have not returned. Its check is for a liveness probe: a controller whose reconciles hang does
// nothing, while the Lease is renewed and no other replica takes over.
type inFlight struct {
	mu      sync.Mutex
	next    int
	started map[int]reconcileStart
}

type reconcileStart struct {
	what string
	at   time.Time
}

// begin notes a reconcile, and returns what ends it.
func (f *inFlight) begin(what string) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started == nil {
		f.started = map[int]reconcileStart{}
	}
	f.next++
	number := f.next
	f.started[number] = reconcileStart{what, time.Now()}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.started, number)
	}
}

// healthy implements healthz.Checker.
func (f *inFlight) healthy(*http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, start := range f.started {
		if lasts := time.Since(start.at); lasts > stuckAfter {
			return fmt.Errorf("a reconcile of controller %s has not returned for %s", start.what, lasts.Round(time.Second))
		}
	}
	return nil
}

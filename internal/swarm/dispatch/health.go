package dispatch

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// stuckTimeout is how long the dispatcher may be silent. It takes a step at least every 30 s, and a step takes milliseconds.
const stuckTimeout = 2 * time.Minute

// A liveness is when the dispatcher last finished a step. It is zero while the dispatcher does not run.
type liveness struct{ last atomic.Pointer[time.Time] }

func (l *liveness) recordStep() {
	now := time.Now()
	l.last.Store(&now)
}

func (l *liveness) reset() { l.last.Store(nil) }

// Healthy is a check for a liveness probe: it fails when the dispatcher hangs. The Lease would still be renewed, and no other
// replica would take over. It takes no lock that the dispatcher could hold.
func (d *Dispatcher) Healthy(*http.Request) error {
	last := d.liveness.last.Load()
	if last == nil {
		return nil
	}
	if silent := time.Since(*last); silent > stuckTimeout {
		return fmt.Errorf("the dispatcher has not finished a step for %s", silent.Round(time.Second))
	}
	return nil
}

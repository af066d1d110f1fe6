package dispatch

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// stuckAfter is how long the dispatcher may be silent. It takes a step at least every 30 s, and a step takes milliseconds.
const stuckAfter = 2 * time.Minute

// A pulse is when the dispatcher last finished a step. It is zero while the dispatcher does not run.
type pulse struct{ last atomic.Pointer[time.Time] }

func (p *pulse) beat() {
	now := time.Now()
	p.last.Store(&now)
}

func (p *pulse) stop() { p.last.Store(nil) }

// Healthy is a check for a liveness probe: it fails when the dispatcher hangs. The Lease would still be renewed, and no other
// replica would take over. It takes no lock that the dispatcher could hold.
func (b *Board) Healthy(*http.Request) error {
	last := b.pulse.last.Load()
	if last == nil {
		return nil
	}
	if silent := time.Since(*last); silent > stuckAfter {
		return fmt.Errorf("the dispatcher has not finished a step for %s", silent.Round(time.Second))
	}
	return nil
}

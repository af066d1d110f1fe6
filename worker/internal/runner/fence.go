package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarm-io/swarm-operator/worker/lease"
)

// minExpiryDelay is the time that jobs have to stop when the loss of the Lease was noticed too late, for example after a suspension.
const minExpiryDelay = 500 * time.Millisecond

// remaining returns the time until a time of a lease.State. Tests replace it.
var remaining = lease.Remaining

// A fence holds what the Lease allows.
type fence struct {
	held                    bool
	lostErr                 error           // why it is not held
	stopCtx                 context.Context // of stops: it ends when they must be forced
	forceStops              context.CancelFunc
	forceTimer, expiryTimer *time.Timer
}

// newFence returns an open fence for a worker without a Lease, and a closed one for a worker that does not hold its Lease yet.
func newFence(held bool) fence {
	const never = 1000 * time.Hour
	f := fence{held: held, forceTimer: time.NewTimer(never), expiryTimer: time.NewTimer(never)}
	f.forceTimer.Stop()
	f.expiryTimer.Stop()
	f.stopCtx, f.forceStops = context.WithCancel(context.Background())
	return f
}

// update opens or closes the fence. A closed fence has two deadlines: when stops are forced, and when nothing may run any more.
func (f *fence) update(state lease.State) {
	f.held, f.lostErr = state.Held, nil
	if state.Held {
		f.forceTimer.Stop()
		f.expiryTimer.Stop()
		if f.stopCtx.Err() != nil {
			f.stopCtx, f.forceStops = context.WithCancel(context.Background())
		}
		return
	}
	f.lostErr = errors.New(state.Problem)
	if !state.ExpiresAt.IsZero() {
		f.forceTimer.Reset(remaining(state.ForceAt))
		f.expiryTimer.Reset(max(remaining(state.ExpiresAt), minExpiryDelay))
	}
}

// checkStopped returns an error for each job that still runs when others may have the Lease. Only the end of the process can stop them.
func (r *runner) checkStopped() error {
	var problems []error
	for _, job := range r.jobs {
		if job.state != idle {
			problems = append(problems, fmt.Errorf("stop job %q: it has not stopped, and the Lease is over: the process has to end", job.name))
		}
	}
	r.abandoned = len(problems) > 0
	return errors.Join(problems...)
}

// waitForCalls waits for calls in progress, unless they should have ended long ago.
func (r *runner) waitForCalls() {
	close(r.done)
	r.fence.forceTimer.Stop()
	r.fence.expiryTimer.Stop()
	r.fence.forceStops()
	if !r.abandoned {
		r.calls.Wait()
	}
}

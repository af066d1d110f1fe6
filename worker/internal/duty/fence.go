package duty

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarm-io/swarm-operator/worker/lease"
)

// lastChance is what jobs have to stop when the loss of the Lease was noticed too late, after a suspension for example.
const lastChance = 500 * time.Millisecond

// left is how long it is until a time of a Tenure. Tests replace it.
var left = lease.Left

// A fence is what the Lease allows.
type fence struct {
	held        bool
	problem     error           // why it is not held
	patience    context.Context // of stops: it ends when they must be forced
	end         context.CancelFunc
	force, over *time.Timer
}

// newFence is open for a worker without a Lease, and closed for one that has yet to get it.
func newFence(open bool) fence {
	const far = 1000 * time.Hour
	made := fence{held: open, force: time.NewTimer(far), over: time.NewTimer(far)}
	made.force.Stop()
	made.over.Stop()
	made.patience, made.end = context.WithCancel(context.Background())
	return made
}

// take opens the fence, or closes it: then the time runs until stops are forced, and until nothing may run any more.
func (f *fence) take(tenure lease.Tenure) {
	f.held, f.problem = tenure.Held, nil
	if tenure.Held {
		f.force.Stop()
		f.over.Stop()
		if f.patience.Err() != nil {
			f.patience, f.end = context.WithCancel(context.Background())
		}
		return
	}
	f.problem = errors.New(tenure.Problem)
	if !tenure.Over.IsZero() {
		f.force.Reset(left(tenure.Force))
		f.over.Reset(max(left(tenure.Over), lastChance))
	}
}

// outlived returns what still runs when others may have the Lease. There is one way left to end that.
func (d *duty) outlived() error {
	var problems []error
	for _, held := range d.jobs {
		if held.state != idle {
			problems = append(problems, fmt.Errorf("stop job %q: it has not stopped, and the Lease is over: the process has to end", held.name))
		}
	}
	d.abandoned = len(problems) > 0
	return errors.Join(problems...)
}

// end waits for calls that are under way, unless they would have to have ended long ago.
func (d *duty) end() {
	close(d.over)
	d.fence.force.Stop()
	d.fence.over.Stop()
	d.fence.end()
	if !d.abandoned {
		d.calls.Wait()
	}
}

package duty

import "time"

// A handler in Go that ignores its context cannot be ended. It would keep its slot for ever, and block a task that is cancelled, an agent
// that is to leave, and the finalizer of its swarm. So the agent gives up its own process: its other attempts are handed back with their
// grace, which costs no retry, the results are delivered, and then the process ends without a Goodbye. The operator learns from the
// container's status that it has ended, as with any other death, and the kubelet starts the container again. The same goes for a program
// that the kernel does not let die.

// stuckTimeout is how long code may run on after it was forced to end.
const stuckTimeout = 10 * time.Second

// stuckAt is when an attempt that was killed counts as stuck; false while it was not killed.
func (d *duty) stuckAt(code *running, now time.Duration) (at time.Duration, killed bool) {
	if !code.Killed() {
		return 0, false
	}
	if code.killedAt == 0 {
		code.killedAt = now
	}
	return code.killedAt + d.StuckTimeout, true
}

// giveUpIfStuck ends the process when nothing else is left to do than to wait for code that does not end.
func (d *duty) giveUpIfStuck(now time.Duration) {
	stuck := 0
	for _, code := range d.attempts {
		if at, killed := d.stuckAt(code, now); killed && now >= at {
			stuck++
		}
	}
	if stuck == 0 || d.gaveUp {
		return
	}
	if !d.stopping {
		d.Log.Error("an attempt does not end: the agent hands back the others and ends its process", "stuck", stuck)
		d.leave()
	}
	delivered := len(d.ledger.Unacknowledged()) == 0 || now >= d.stoppingAt+farewell
	if stuck == len(d.attempts) && delivered {
		d.gaveUp = true
		d.Abort("an attempt did not end after it was stopped and its grace was over")
	}
}

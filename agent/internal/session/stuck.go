package session

import "time"

// A handler in Go that ignores its context cannot be ended. It would keep its slot for ever, and block a task that is cancelled, an agent
// that is to leave, and the finalizer of its swarm. So the agent gives up its own process: its other attempts are handed back with their
// grace, which costs no retry, the results are delivered, and then the process ends without a Goodbye. The operator learns from the
// container's status that it has ended, as with any other death, and the kubelet starts the container again. The same goes for a program
// that the kernel does not let die.

// stuckTimeout is how long code may run on after it was forced to end.
const stuckTimeout = 10 * time.Second

// stuckAt is when an attempt that was killed counts as stuck; false while it was not killed.
func (s *session) stuckAt(running *runningAttempt, now time.Duration) (at time.Duration, killed bool) {
	if !running.Killed() {
		return 0, false
	}
	if running.killedAt == 0 {
		running.killedAt = now
	}
	return running.killedAt + s.StuckTimeout, true
}

// abortIfStuck ends the process when nothing else is left to do than to wait for code that does not end.
func (s *session) abortIfStuck(now time.Duration) {
	stuck := 0
	for _, running := range s.attempts {
		if at, killed := s.stuckAt(running, now); killed && now >= at {
			stuck++
		}
	}
	if stuck == 0 || s.aborted {
		return
	}
	if !s.stopping {
		s.Log.Error("an attempt does not end: the agent hands back the others and ends its process", "stuck", stuck)
		s.beginShutdown()
	}
	delivered := len(s.ledger.Unacknowledged()) == 0 || now >= s.lastEndAt+acknowledgeTimeout
	if stuck == len(s.attempts) && delivered {
		s.aborted = true
		s.Abort("an attempt did not end after it was stopped and its grace was over")
	}
}

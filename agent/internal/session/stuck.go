package session

import "time"

// A handler in Go that ignores its context cannot be ended. It would keep its slot forever, and block a cancelled task, an agent that is to
// leave, and the finalizer of its swarm. So the agent ends its own process: it hands back its other attempts with their grace period, which
// costs no retry, delivers the results, and then exits without a Goodbye. The operator learns from the container's status that the process
// has ended, and the kubelet restarts the container. The same applies to a program that the kernel cannot kill.

// stuckTimeout is how long code may continue after it was killed.
const stuckTimeout = 10 * time.Second

// stuckAt returns when a killed attempt counts as stuck, and false while it was not killed.
func (s *session) stuckAt(running *runningAttempt, now time.Duration) (at time.Duration, killed bool) {
	if !running.Killed() {
		return 0, false
	}
	if running.killedAt == 0 {
		running.killedAt = now
	}
	return running.killedAt + s.StuckTimeout, true
}

// abortIfStuck ends the process when only stuck attempts are left.
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
		s.Log.Error("attempt is stuck: handing back the others and ending the process", "stuck", stuck)
		s.beginShutdown()
	}
	delivered := len(s.ledger.Unacknowledged()) == 0 || now >= s.lastEndAt+acknowledgeTimeout
	if stuck == len(s.attempts) && delivered {
		s.aborted = true
		s.Abort("an attempt did not end after it was stopped and its grace was over")
	}
}

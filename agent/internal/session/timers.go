package session

import (
	"time"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// maxSleep is how long an agent sleeps when no timer is due. Nothing depends on its value.
const maxSleep = time.Hour

// runTimers runs what is due.
func (s *session) runTimers() {
	now := s.Clock()
	s.checkLease()
	if s.stream != nil && !s.welcomed && now >= s.helloSentAt+welcomeTimeout {
		s.Log.Warn("the operator does not answer Hello")
		s.closeStream()
	}
	if s.welcomed && now >= s.heartbeatSentAt+s.lease.HeartbeatInterval() {
		s.sendHeartbeat()
	}
	if s.welcomed && s.progressDue && now >= s.progressAt {
		s.sendProgress()
	}
	if s.drainDue && now >= s.drainAt {
		s.drainDue = false
		s.stopAttempts(attempt.StopRequest{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "Drained", Message: "the agent was drained",
			Grace: s.Grace})
	}
	s.resendResults(now)
	s.abortIfStuck(now)
}

func (s *session) resendResults(now time.Duration) {
	if !s.welcomed {
		return
	}
	interval := s.resendInterval()
	for _, result := range s.ledger.Unacknowledged() {
		if now >= s.resultSentAt[result.GetAttempt().Key()]+interval {
			s.sendResult(result)
		}
	}
}

func (s *session) resendInterval() time.Duration {
	return max(minResendInterval, time.Duration(len(s.resultSentAt))*resendIntervalPerResult)
}

// checkLease stops and kills by the lease alone, whether or not the connection looks alive.
func (s *session) checkLease() {
	now := s.Clock()
	switch s.lease.Phase(now) {
	case lease.NotGranted:
	case lease.Held, lease.Silent:
		s.stopBeforeExpiry(now)
	case lease.Expired:
		s.fence()
	}
}

// stopBeforeExpiry asks work to stop that needs the rest of the lease for its grace period. A later echo does not undo that.
func (s *session) stopBeforeExpiry(now time.Duration) {
	for key, running := range s.attempts {
		if running.stopRequested || now < s.lease.StopAt(running.grace) {
			continue
		}
		running.stopRequested = true
		running.Stop(attempt.LeaseExpired)
		s.Log.Warn("no echo from the operator: stopping an attempt before the lease ends", "uid", key.TaskUID, "epoch", key.Epoch)
	}
}

// fence kills what runs. If this goroutine is late, the watchdog has done so.
func (s *session) fence() {
	for _, running := range s.attempts {
		running.Expire()
	}
	if s.welcomed {
		s.closeStream()
		s.Log.Error("the lease is over: leaving the operator", "running", len(s.attempts))
	}
}

// untilNextTimer returns the time until the next timer.
func (s *session) untilNextTimer() time.Duration {
	now := s.Clock()
	next := now + maxSleep
	consider := func(at time.Duration, when bool) {
		if when {
			next = min(next, at)
		}
	}
	phase := s.lease.Phase(now)
	consider(s.lease.ExpiresAt(), phase == lease.Held || phase == lease.Silent)
	for _, running := range s.attempts {
		consider(s.lease.StopAt(running.grace), !running.stopRequested && phase != lease.Expired)
		at, killed := s.stuckAt(running, now)
		consider(at, killed && now < at)
	}
	consider(s.helloSentAt+welcomeTimeout, s.stream != nil && !s.welcomed)
	consider(s.heartbeatSentAt+s.lease.HeartbeatInterval(), s.welcomed)
	consider(s.progressAt, s.welcomed && s.progressDue)
	consider(s.drainAt, s.drainDue)
	consider(s.lastEndAt+acknowledgeTimeout, s.stopping && now < s.lastEndAt+acknowledgeTimeout)
	interval := s.resendInterval()
	for _, at := range s.resultSentAt {
		consider(at+interval, s.welcomed)
	}
	return max(next-now, 0)
}

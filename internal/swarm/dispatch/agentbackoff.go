package dispatch

import "time"

const (
	// An agent that does not run its assignments rests, for longer each time.
	initialBackoff, maxBackoff = time.Second, 30 * time.Second
	// probationPeriod is how long an attempt has to last to prove that its agent works again.
	probationPeriod = 10 * time.Second
)

// recordFailure records that an agent has declined an attempt, lost it, or handed it back without being asked. Each such round
// costs writes, whatever the task, so the agent rests for a while when it happens again. Setbacks during that rest have the
// same cause.
func (a *agentState) recordFailure(now time.Time) {
	if a.draining || !a.leavingSince.IsZero() || now.Before(a.backoffUntil) {
		return
	}
	a.consecutiveFailures++
	if a.isOnProbation() {
		a.backoffUntil = now.Add(min(initialBackoff<<min(a.consecutiveFailures-2, 6), maxBackoff))
	}
}

// isOnProbation reports whether an agent has to prove that it runs its assignments.
func (a *agentState) isOnProbation() bool { return a.consecutiveFailures > 1 }

// recordSuccess records that an agent runs its assignments.
func (a *agentState) recordSuccess() { a.consecutiveFailures, a.backoffUntil = 0, time.Time{} }

// probationSlots returns how many attempts an agent on trial may begin: none while it rests, then one, until that has lasted or has
// ended. It also returns when that may change.
func (a *agentState) probationSlots(now time.Time) (attempts int, next time.Time) {
	if now.Before(a.backoffUntil) {
		return 0, a.backoffUntil
	}
	for _, state := range a.assignedTasks {
		if state.assignment.since.Before(a.backoffUntil) {
			continue // from before it rested
		}
		proven := state.assignment.since.Add(probationPeriod)
		if now.Before(proven) {
			return 0, proven
		}
		a.recordSuccess()
		return a.slots(), time.Time{}
	}
	return 1, time.Time{}
}

// probationEnds returns when agents of a swarm that rest or are on trial may get more work.
func (d *Dispatcher) probationEnds(swarm *swarmState, now time.Time) time.Time {
	var next time.Time
	for _, agent := range d.agents {
		if agent.swarm == swarm.name && agent.isOnProbation() {
			_, until := agent.probationSlots(now)
			next = earliest(next, until)
		}
	}
	return next
}

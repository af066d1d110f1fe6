package dispatch

import "time"

const (
	// An agent that does not run its assignments rests, for longer each time.
	firstRest, longestRest = time.Second, 30 * time.Second
	// provenAfter is how long an attempt has to last to prove that its agent works again.
	provenAfter = 10 * time.Second
)

// setBack records that an agent has declined an attempt, lost it, or handed it back without being asked. Each such round
// costs writes, whatever the task, so the agent rests for a while when it happens again. Setbacks during that rest have the
// same cause.
func (a *agent) setBack(now time.Time) {
	if a.draining || !a.leaving.IsZero() || now.Before(a.rests) {
		return
	}
	a.setbacks++
	if a.isTried() {
		a.rests = now.Add(min(firstRest<<min(a.setbacks-2, 6), longestRest))
	}
}

// isTried reports whether an agent has to prove that it runs its assignments.
func (a *agent) isTried() bool { return a.setbacks > 1 }

// works records that an agent runs its assignments.
func (a *agent) works() { a.setbacks, a.rests = 0, time.Time{} }

// trial returns how many attempts an agent on trial may begin: none while it rests, then one, until that has lasted or has
// ended. It also returns when that may change.
func (a *agent) trial(now time.Time) (attempts int, next time.Time) {
	if now.Before(a.rests) {
		return 0, a.rests
	}
	for _, of := range a.holds {
		if of.held.since.Before(a.rests) {
			continue // from before it rested
		}
		proven := of.held.since.Add(provenAfter)
		if now.Before(proven) {
			return 0, proven
		}
		a.works()
		return a.slots(), time.Time{}
	}
	return 1, time.Time{}
}

// atRest returns when agents of a swarm that rest or are on trial may get more work.
func (b *Board) atRest(of *swarm, now time.Time) time.Time {
	var next time.Time
	for _, member := range b.agents {
		if member.swarm == of.name && member.isTried() {
			_, until := member.trial(now)
			next = earliest(next, until)
		}
	}
	return next
}

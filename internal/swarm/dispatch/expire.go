package dispatch

import (
	"time"
)

// expire gives up attempts that can no longer be running, asks leaving agents for attempts that they hold for too long, and
// returns when to look again.
func (d *Dispatcher) expire(now time.Time) time.Time {
	var next time.Time
	for _, agent := range d.agents {
		if len(agent.assignedTasks)+len(agent.orphans) > 0 {
			next = earliest(next, d.expireAgent(agent, now))
		}
		d.removeIfUnused(agent)
	}
	return next
}

func (d *Dispatcher) expireAgent(agent *agentState, now time.Time) time.Time {
	var next time.Time
	alive := d.aliveUntil(agent, now)
	for _, state := range agent.assignedTasks {
		switch expiry := d.attemptExpiry(state.assignment, alive); {
		case !state.assignment.sent: // no agent has it yet
		case !now.Before(expiry):
			d.markLost(state, "it was not heard for longer than its lease")
		default:
			next = earliest(next, expiry)
		}
	}
	for key, orphan := range agent.orphans {
		expiry := orDefault(orphan.expiresAt, alive)
		if !now.Before(expiry) {
			d.dropOrphan(agent, key)
			continue
		}
		next = earliest(next, expiry)
	}
	return earliest(next, d.recallAttempts(agent, now))
}

// aliveUntil returns when an agent can no longer be working, as far as is known now. An open stream proves nothing: only
// heartbeats count. The stream is ended before it is given up, so that no echo prolongs the agent's lease afterwards.
func (d *Dispatcher) aliveUntil(agent *agentState, now time.Time) time.Time {
	end := d.leaseEnd(agent)
	if agent.linked && !now.Before(end) && !d.link.Disconnect(agent.name, d.lastHeard(agent)) {
		return d.leaseEnd(agent) // it was heard just now
	}
	return end
}

func orDefault(known, otherwise time.Time) time.Time {
	if known.IsZero() {
		return otherwise
	}
	return known
}

// recallAttempts asks a leaving agent to hand back its work once its time to finish is over; until then it returns that time.
func (d *Dispatcher) recallAttempts(agent *agentState, now time.Time) time.Time {
	if agent.leavingSince.IsZero() || !agent.linked {
		return time.Time{}
	}
	deadline := agent.leavingSince.Add(leaveGracePeriod)
	if now.Before(deadline) {
		return deadline
	}
	for _, state := range agent.assignedTasks {
		if assignment := state.assignment; assignment.sent && assignment.sentStop == Continue && d.sendStop(agent,
			state.assignedAttempt(assignment), HandBack) {
			assignment.sentStop = HandBack
		}
	}
	return time.Time{}
}

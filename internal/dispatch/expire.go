package dispatch

import (
	"time"
)

// expire gives up what its agent can no longer be running, asks back what leaving agents hold for too long, and says when to look
// again.
func (b *Board) expire(now time.Time) time.Time {
	var next time.Time
	for _, member := range b.agents {
		if member.busy() > 0 {
			next = earliest(next, b.expireOf(member, now))
			b.discard(member)
		}
	}
	return next
}

func (b *Board) expireOf(member *agent, now time.Time) time.Time {
	var next time.Time
	for _, of := range member.holds {
		switch over := b.overOf(member, of.held.expires); {
		case !of.held.sent: // nobody has it yet
		case !now.Before(over):
			b.lose(of, "it was not heard for longer than its lease")
		default:
			next = earliest(next, over)
		}
	}
	for key, lone := range member.strays {
		over := b.overOf(member, lone.until)
		if !now.Before(over) {
			b.drop(member, key)
			continue
		}
		next = earliest(next, over)
	}
	return earliest(next, b.askBack(member, now))
}

// overOf is when something on an agent is surely over. A stream that is up proves nothing: only heartbeats count.
func (b *Board) overOf(member *agent, known time.Time) time.Time {
	if known.IsZero() {
		return b.over(member)
	}
	return known
}

// askBack ends the patience with an agent that is to go.
func (b *Board) askBack(member *agent, now time.Time) time.Time {
	if member.leaving.IsZero() || !member.linked {
		return time.Time{}
	}
	deadline := member.leaving.Add(finishing)
	if now.Before(deadline) {
		return deadline
	}
	for _, of := range member.holds {
		if held := of.held; held.sent && held.stopped == GoOn && b.order(member, of.attemptOf(held), HandBack) {
			held.stopped = HandBack
		}
	}
	return time.Time{}
}

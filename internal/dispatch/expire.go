package dispatch

import (
	"time"
)

// expire gives up attempts that can no longer be running, asks leaving agents for attempts that they hold for too long, and
// returns when to look again.
func (b *Board) expire(now time.Time) time.Time {
	var next time.Time
	for _, member := range b.agents {
		if len(member.holds)+len(member.strays) > 0 {
			next = earliest(next, b.expireOf(member, now))
		}
		b.discard(member)
	}
	return next
}

func (b *Board) expireOf(member *agent, now time.Time) time.Time {
	var next time.Time
	alive := b.aliveUntil(member, now)
	for _, of := range member.holds {
		switch over := b.expiry(of.held, alive); {
		case !of.held.sent: // no agent has it yet
		case !now.Before(over):
			b.lose(of, "it was not heard for longer than its lease")
		default:
			next = earliest(next, over)
		}
	}
	for key, lone := range member.strays {
		over := orElse(lone.until, alive)
		if !now.Before(over) {
			b.drop(member, key)
			continue
		}
		next = earliest(next, over)
	}
	return earliest(next, b.askBack(member, now))
}

// aliveUntil returns when an agent can no longer be working, as far as is known now. An open stream proves nothing: only
// heartbeats count. The stream is ended before it is given up, so that no echo prolongs the agent's lease afterwards.
func (b *Board) aliveUntil(member *agent, now time.Time) time.Time {
	over := b.over(member)
	if member.linked && !now.Before(over) && !b.link.Disconnect(member.name, b.lastHeard(member)) {
		return b.over(member) // it was heard just now
	}
	return over
}

func orElse(known, otherwise time.Time) time.Time {
	if known.IsZero() {
		return otherwise
	}
	return known
}

// askBack asks a leaving agent to hand back its work once its time to finish is over; until then it returns that time.
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

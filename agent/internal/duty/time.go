package duty

import (
	"time"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// idle is how long an agent sleeps when nothing is due. Nothing depends on it.
const idle = time.Hour

// keepTime does what is due.
func (d *duty) keepTime() {
	now := d.Clock()
	d.fenceIfDue()
	if d.stream != nil && !d.welcomed && now >= d.helloAt+welcomeTimeout {
		d.Log.Warn("the operator does not answer Hello")
		d.discard()
	}
	if d.welcomed && now >= d.beatAt+d.lease.Beat() {
		d.beat()
	}
	if d.welcomed && d.flushDue && now >= d.flushAt {
		d.flush()
	}
	if d.drainDue && now >= d.drainAt {
		d.drainDue = false
		d.stopAll(attempt.Stop{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "Drained", Message: "the agent was drained", Grace: d.Grace})
	}
	d.resend(now)
	d.giveUpIfStuck(now)
}

func (d *duty) resend(now time.Duration) {
	if !d.welcomed {
		return
	}
	pause := d.resendPause()
	for _, result := range d.ledger.Unacknowledged() {
		if now >= d.sentAt[result.GetAttempt().Key()]+pause {
			d.send(result)
		}
	}
}

func (d *duty) resendPause() time.Duration {
	return max(resendEvery, time.Duration(len(d.sentAt))*resendEach)
}

// fenceIfDue stops and kills by the lease alone: that the connection looks alive means nothing.
func (d *duty) fenceIfDue() {
	now := d.Clock()
	switch d.lease.Phase(now) {
	case lease.None:
	case lease.Held, lease.Silent:
		d.warn(now)
	case lease.Over:
		d.fence()
	}
}

// warn asks work to stop that needs the rest of the lease for it. An echo that comes later does not undo that.
func (d *duty) warn(now time.Duration) {
	for key, code := range d.attempts {
		if code.warned || now < d.lease.StopAt(code.grace) {
			continue
		}
		code.warned = true
		code.Stop(attempt.LeaseExpired)
		d.Log.Warn("no echo from the operator: stopping an attempt before the lease ends", "uid", key.TaskUID, "epoch", key.Epoch)
	}
}

// fence kills what runs. Should this goroutine not get here in time, the watchdog has done so.
func (d *duty) fence() {
	for _, code := range d.attempts {
		code.Expire()
	}
	if d.welcomed {
		d.discard()
		d.Log.Error("the lease is over: leaving the operator", "running", len(d.attempts))
	}
}

// untilNext is how long nothing is due.
func (d *duty) untilNext() time.Duration {
	now := d.Clock()
	next := now + idle
	due := func(at time.Duration, when bool) {
		if when {
			next = min(next, at)
		}
	}
	phase := d.lease.Phase(now)
	due(d.lease.End(), phase == lease.Held || phase == lease.Silent)
	for _, code := range d.attempts {
		due(d.lease.StopAt(code.grace), !code.warned && phase != lease.Over)
		at, killed := d.stuckAt(code, now)
		due(at, killed && now < at)
	}
	due(d.helloAt+welcomeTimeout, d.stream != nil && !d.welcomed)
	due(d.beatAt+d.lease.Beat(), d.welcomed)
	due(d.flushAt, d.welcomed && d.flushDue)
	due(d.drainAt, d.drainDue)
	due(d.stoppingAt+farewell, d.stopping && now < d.stoppingAt+farewell)
	pause := d.resendPause()
	for _, at := range d.sentAt {
		due(at+pause, d.welcomed)
	}
	return max(next-now, 0)
}

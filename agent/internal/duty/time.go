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
}

func (d *duty) resend(now time.Duration) {
	if !d.welcomed {
		return
	}
	for _, result := range d.ledger.Unacknowledged() {
		if now >= d.sentAt[result.GetAttempt().Key()]+resendEvery {
			d.send(result)
		}
	}
}

// fenceIfDue stops and kills by the lease alone: that the connection looks alive means nothing.
func (d *duty) fenceIfDue() {
	switch d.lease.Phase(d.Clock()) {
	case lease.None, lease.Held:
		d.warned = false
	case lease.Ending:
		d.warn()
	case lease.Over:
		d.fence()
	}
}

func (d *duty) warn() {
	if d.warned || len(d.attempts) == 0 {
		return
	}
	d.warned = true
	d.stopAll(attempt.LeaseExpired)
	d.Log.Warn("no echo for two thirds of the lease: stopping what runs", "running", len(d.attempts))
}

// fence kills what runs. Should this goroutine not get here in time, the watchdog has done so.
func (d *duty) fence() {
	for _, running := range d.attempts {
		running.Expire()
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
	due(d.lease.Warning(), phase == lease.Held)
	due(d.lease.End(), phase == lease.Held || phase == lease.Ending)
	due(d.helloAt+welcomeTimeout, d.stream != nil && !d.welcomed)
	due(d.beatAt+d.lease.Beat(), d.welcomed)
	due(d.flushAt, d.welcomed && d.flushDue)
	due(d.drainAt, d.drainDue)
	due(d.stoppingAt+farewell, d.stopping && len(d.attempts) == 0)
	for _, at := range d.sentAt {
		due(at+resendEvery, d.welcomed)
	}
	return max(next-now, 0)
}

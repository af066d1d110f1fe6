// Package lease computes how long an agent may go on working without news of the operator.
//
// The lease counts from the sending of the last heartbeat that was echoed. The operator counts from its receipt, which
// is later, so the agent always runs out first, whatever the network did in between. Times are readings of a clock
// that counts suspension (hostclock.BootTime); this package never reads it by itself.
package lease

import "time"

// maxHeartbeatInterval bounds how long it takes until the operator, or the agent, notices that the other is silent.
const maxHeartbeatInterval = 5 * time.Second

// A Phase is how much of the lease is left.
type Phase int

const (
	// NotGranted: the agent was never welcomed, so it runs nothing.
	NotGranted Phase = iota
	// Held: all is well.
	Held
	// Silent: two heartbeats were not echoed. What runs goes on, but nothing new is taken: an order that comes now may be one of a leader of
	// the past.
	Silent
	// Expired: what still runs must be gone.
	Expired
)

// A Lease is one agent's, over all of its streams.
type Lease struct {
	length    time.Duration
	renewedAt time.Duration
	granted   bool
	sentAt    map[int64]time.Duration // sent on this stream, not yet echoed
}

// Reconnect begins a new stream. Hello counts as heartbeat 0, and echoes of the stream before are not expected any more.
func (l *Lease) Reconnect(sent time.Duration) {
	l.sentAt = map[int64]time.Duration{0: sent}
}

// RecordHeartbeat notes a heartbeat. The time must be no later than the sending.
func (l *Lease) RecordHeartbeat(sequence int64, at time.Duration) { l.sentAt[sequence] = at }

// RecordWelcome is the echo of Hello, and sets the length of the lease from now on.
func (l *Lease) RecordWelcome(length time.Duration) {
	l.length, l.granted = length, true
	l.RecordEcho(0)
}

// RecordEcho prolongs the lease. An echo of what was never sent means nothing.
func (l *Lease) RecordEcho(sequence int64) {
	at, ok := l.sentAt[sequence]
	if !ok {
		return
	}
	l.renewedAt = max(l.renewedAt, at)
	for earlier := range l.sentAt {
		if earlier <= sequence {
			delete(l.sentAt, earlier)
		}
	}
}

// Length is the length in the last Welcome, 0 before the first.
func (l *Lease) Length() time.Duration { return l.length }

// Phase is where the lease stands.
func (l *Lease) Phase(now time.Duration) Phase {
	switch {
	case !l.granted:
		return NotGranted
	case now >= l.ExpiresAt():
		return Expired
	case now >= l.SilentAt():
		return Silent
	}
	return Held
}

// SilentAt is when two heartbeats have not been echoed.
func (l *Lease) SilentAt() time.Duration { return l.renewedAt + 2*l.HeartbeatInterval() }

// StopAt is when work with this grace is asked to stop, so that it has some of its grace before the end. It never has more than a quarter
// of the lease: most of the lease is for a new leader to appear, and the full grace is for work that is cancelled or drained.
func (l *Lease) StopAt(grace time.Duration) time.Duration {
	return l.ExpiresAt() - min(grace, l.length/4)
}

// ExpiresAt is when it is over.
func (l *Lease) ExpiresAt() time.Duration { return l.renewedAt + l.length }

// HeartbeatInterval is the time between heartbeats. Several may be lost before anything stops.
func (l *Lease) HeartbeatInterval() time.Duration { return min(l.length/3, maxHeartbeatInterval) }

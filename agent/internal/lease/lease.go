// Package lease computes how long an agent may continue to work without hearing from the operator.
//
// The lease counts from when the last echoed heartbeat was sent. The operator counts from its receipt, which is later, so the lease always
// expires first at the agent, whatever the network did. Times are readings of a clock that includes suspension (hostclock.BootTime); this
// package never reads the clock itself.
package lease

import "time"

// maxHeartbeatInterval bounds how long it takes until the operator, or the agent, notices that the other is silent.
const maxHeartbeatInterval = 5 * time.Second

// A Phase is how much of the lease is left.
type Phase int

const (
	// NotGranted: the agent has never received a Welcome, so it runs nothing.
	NotGranted Phase = iota
	// Held: the operator echoes heartbeats.
	Held
	// Silent: two heartbeats were not echoed. Attempts continue, but none is started: an Assign that arrives now may come from a former
	// leader.
	Silent
	// Expired: nothing may run any more.
	Expired
)

// A Lease is the lease of one agent, over all of its streams.
type Lease struct {
	length    time.Duration
	renewedAt time.Duration
	granted   bool
	sentAt    map[int64]time.Duration // sent on this stream, not yet echoed
}

// Reconnect begins a new stream. Hello counts as heartbeat 0, and echoes on the previous stream are no longer expected.
func (l *Lease) Reconnect(sent time.Duration) {
	l.sentAt = map[int64]time.Duration{0: sent}
}

// RecordHeartbeat records a heartbeat. The time must not be later than the sending.
func (l *Lease) RecordHeartbeat(sequence int64, at time.Duration) { l.sentAt[sequence] = at }

// RecordWelcome records the echo of Hello, and sets the length of the lease from now on.
func (l *Lease) RecordWelcome(length time.Duration) {
	l.length, l.granted = length, true
	l.RecordEcho(0)
}

// RecordEcho extends the lease. It ignores echoes of heartbeats that were never sent.
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

// Length returns the length in the last Welcome, 0 before the first.
func (l *Lease) Length() time.Duration { return l.length }

// Phase returns the phase of the lease.
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

// SilentAt returns when the phase becomes Silent.
func (l *Lease) SilentAt() time.Duration { return l.renewedAt + 2*l.HeartbeatInterval() }

// StopAt returns when to ask work with this grace period to stop, so that it has some of it before the lease ends. That is at most a
// quarter of the lease: most of the lease is time for a new leader to appear, and the full grace period is for work that is cancelled or
// drained.
func (l *Lease) StopAt(grace time.Duration) time.Duration {
	return l.ExpiresAt() - min(grace, l.length/4)
}

// ExpiresAt returns when the lease is over.
func (l *Lease) ExpiresAt() time.Duration { return l.renewedAt + l.length }

// HeartbeatInterval returns the time between heartbeats. Several may be lost before any work is stopped.
func (l *Lease) HeartbeatInterval() time.Duration { return min(l.length/3, maxHeartbeatInterval) }

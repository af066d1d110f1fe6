package task

import "time"

const (
	// clockRetryInterval is the delay before a task is reconciled again if its time limit waits for a correct clock.
	clockRetryInterval = 30 * time.Second
	clockSkewed        = "ClockSkewed"
)

// A Clock knows how far the clock of this process is ahead of the API server's, and whether the difference is small enough to rely on it.
// Time limits and expiry count from times written by the API server or by another leader. Their effects are final, so they wait while the
// clock is wrong.
type Clock interface {
	Skew() (ahead time.Duration, reliable bool)
}

// A clockState is the state of the clock when a task was observed. The zero value is a correct clock.
type clockState struct {
	skewed bool
	ahead  time.Duration // zero unless skewed
}

func (r *reconciler) readClock() clockState {
	if r.clock == nil {
		return clockState{}
	}
	ahead, reliable := r.clock.Skew()
	if reliable {
		return clockState{}
	}
	return clockState{skewed: true, ahead: ahead}
}

// hasPassed reports whether a time limit has certainly passed. The zero limit never passes.
func (c clockState) hasPassed(limit, now time.Time) bool {
	return !c.skewed && !limit.IsZero() && !now.Before(limit)
}

// serverTime returns the time to store for a moment of this process's clock: the API server's, so that a leader with a correct clock counts
// from the right moment.
func (c clockState) serverTime(moment time.Time) time.Time {
	return moment.Add(-c.ahead).Truncate(time.Second)
}

package task

import "time"

const (
	// clockLookAgain is how often a task is looked at whose time limit waits for a clock that is right.
	clockLookAgain = 30 * time.Second
	clockSkewed    = "ClockSkewed"
)

// A Clock knows how far the clock of this process is ahead of the API server's, and whether that is little enough to act by it. Time
// limits and expiry count from times that the API server, or another leader, has written. What they do is final, so they wait while the
// clock is wrong.
type Clock interface {
	Skew() (ahead time.Duration, reliable bool)
}

// A clock is what was known about the clock when a task was looked at. The zero value is a clock that is right.
type clock struct {
	skewed bool
	ahead  time.Duration // zero unless skewed
}

func (r *reconciler) readClock() clock {
	if r.clock == nil {
		return clock{}
	}
	ahead, reliable := r.clock.Skew()
	if reliable {
		return clock{}
	}
	return clock{skewed: true, ahead: ahead}
}

// passed reports whether a time limit has certainly passed. The zero limit never passes.
func (c clock) passed(limit, now time.Time) bool {
	return !c.skewed && !limit.IsZero() && !now.Before(limit)
}

// stamp returns the time to store for a moment of this process's clock: the API server's, so that a leader whose clock is right counts
// from the right moment.
func (c clock) stamp(moment time.Time) time.Time {
	return moment.Add(-c.ahead).Truncate(time.Second)
}

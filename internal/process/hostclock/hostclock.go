// Package hostclock tells how much time has passed on this machine, suspension included.
//
// It promises that an age is never too low: it is the largest that any clock of the machine knows. The clock of the time since boot counts
// suspension and cannot be set. The wall clock counts it too, also where the kernel was not told of it, but can be set back. Go's monotonic
// clock stands still meanwhile, and is the only one in the bubbles of testing/synctest. Ages are for those who must stop in time: to wait
// until another process has surely stopped is the opposite, and needs the lowest.
package hostclock

import "time"

// A Reading is what the clocks say at one moment. The zero value is no moment.
type Reading struct {
	Monotonic time.Time
	Wall      time.Time     // without a monotonic reading
	Boot      time.Duration // since boot
}

// Read reads all clocks.
func Read() Reading {
	now := time.Now()
	return Reading{Monotonic: now, Wall: now.Round(0), Boot: BootTime()}
}

// IsZero reports whether the reading is the zero value.
func (r Reading) IsZero() bool { return r.Monotonic.IsZero() }

// Add is the moment a while later, or earlier if it is negative.
func (r Reading) Add(delta time.Duration) Reading {
	return Reading{Monotonic: r.Monotonic.Add(delta), Wall: r.Wall.Add(delta), Boot: r.Boot + delta}
}

// Since is how much time has passed since an earlier reading, by the clock that says most.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Monotonic.Sub(earlier.Monotonic), r.Wall.Sub(earlier.Wall), r.Boot-earlier.Boot)
}

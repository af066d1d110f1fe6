// Package hostclock measures how much time has passed on this machine, including suspension.
//
// It promises that an age is never too low: it is the largest of all clocks of the machine. The boot-time clock includes suspension and
// cannot be set. The wall clock includes it too, even where the kernel did not notice it, but can be set back. Go's monotonic clock stands
// still during suspension, and is the only one in the bubbles of testing/synctest. Ages are for code that must stop in time. Waiting until
// another process has certainly stopped is the opposite, and needs the lowest age.
package hostclock

import "time"

// A Reading holds the values of the clocks at one time. The zero value is not a time.
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

// Add returns the reading after a duration, or before if it is negative.
func (r Reading) Add(delta time.Duration) Reading {
	return Reading{Monotonic: r.Monotonic.Add(delta), Wall: r.Wall.Add(delta), Boot: r.Boot + delta}
}

// Since returns the time since an earlier reading, by the clock that shows the most.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Monotonic.Sub(earlier.Monotonic), r.Wall.Sub(earlier.Wall), r.Boot-earlier.Boot)
}

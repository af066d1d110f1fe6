//go:build !linux

package hostclock

import "time"

var start = time.Now()

// BootTime reads Go's monotonic clock: good enough for development, because agents and workers run on Linux.
func BootTime() time.Duration { return time.Since(start) }

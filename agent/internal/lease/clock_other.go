//go:build !linux

package lease

import "time"

var start = time.Now()

// Clock reads Go's monotonic clock: good enough to develop on, agents live on Linux.
func Clock() time.Duration { return time.Since(start) }

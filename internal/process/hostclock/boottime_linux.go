package hostclock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// BootTime reads the time since boot, which includes the time that the machine was suspended. Go's own monotonic clock stands still then,
// and a process that wakes up would believe that its lease had hardly begun.
func BootTime() time.Duration {
	var reading unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &reading); err != nil {
		panic(fmt.Sprintf("read boot-time clock: %v", err)) // every Linux since 2.6.39 has it
	}
	return time.Duration(reading.Nano())
}

package lease

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Clock reads the time since boot, which includes the time the machine was suspended. Go's own monotonic clock stands
// still then, and an agent that woke up would believe that its lease had hardly begun.
func Clock() time.Duration {
	var reading unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &reading); err != nil {
		panic(fmt.Sprintf("read boot-time clock: %v", err)) // every Linux since 2.6.39 has it
	}
	return time.Duration(reading.Nano())
}

package processgroup

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits for a child to end without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// becomeSubreaper makes orphans of our programs our own children, whether or not this is the first process of the container: otherwise we
// could not know when they are gone.
var becomeSubreaper = sync.OnceFunc(func() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(fmt.Sprintf("become a subreaper: %v", err)) // supported since Linux 3.4
	}
})

// reapGroup waits until no process of a killed group is left.
func reapGroup(pid int) {
	for {
		_, err := unix.Wait4(-pid, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // no child of that group any more
		}
	}
}

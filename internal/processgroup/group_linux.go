package processgroup

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits for the end of a child without taking its place from the process table.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// adopt makes orphans of our programs our own children, whether or not we are the first process of the container:
// otherwise nobody could say when they are gone.
var adopt = sync.OnceFunc(func() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(fmt.Sprintf("become a subreaper: %v", err)) // every Linux since 3.4 can
	}
})

// reapGroup waits until nobody of a group that was killed is left.
func reapGroup(pid int) {
	for {
		_, err := unix.Wait4(-pid, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // no child of that group any more
		}
	}
}

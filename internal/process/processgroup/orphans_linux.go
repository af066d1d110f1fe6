package processgroup

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// orphanRetryDelay is how long to wait when the next ended child is not an orphan: the code that started it will reap it.
const orphanRetryDelay = 100 * time.Millisecond

// ReapOrphans reaps every ended process that became a child of this one because its own parent had ended, and that left the process
// group of its program. It is for programs whose children were all started by Run: the exit status of any other child would be lost.
var ReapOrphans = sync.OnceFunc(func() {
	becomeSubreaper()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for {
			for reapOrphansOnce() {
				time.Sleep(orphanRetryDelay)
			}
			<-ended
		}
	}()
})

// reapOrphansOnce reaps orphans until there is none, or until another child comes first. It reports whether to look again.
func reapOrphansOnce() bool {
	for {
		pid := endedChild()
		if pid == 0 {
			return false
		}
		if !started.reapOrphan(pid, func() { _, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) }) {
			return true
		}
	}
}

// endedChild returns the pid of a child that has ended, without reaping it; 0 if there is none.
func endedChild() int {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || info.Signo == 0:
			return 0
		}
		// The fields after the first three depend on the signal; for SIGCHLD the pid is the first of them, aligned like a pointer.
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 2*unsafe.Sizeof(info.Signo)+unsafe.Sizeof(uintptr(0)))))
	}
}

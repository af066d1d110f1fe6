//go:build !linux

package processgroup

import (
	"errors"
	"syscall"
	"time"
)

// sysProcAttr lacks the parent-death signal: only Linux has it, and our programs run on Linux.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit polls whether the group has any process left: good enough for development.
func awaitExit(pid int) {
	for !errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH) {
		time.Sleep(10 * time.Millisecond)
	}
}

func becomeSubreaper() {}

// reapGroup does nothing: awaitExit has waited for the group.
func reapGroup(int) {}

// ReapOrphans does nothing: orphans become children of the first process.
func ReapOrphans() {}

//go:build !linux

package processgroup

import (
	"errors"
	"syscall"
	"time"
)

// attributes lack the parent-death signal: only Linux has it, and our programs live on Linux.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit asks again and again whether the group has anybody left: good enough to develop on.
func awaitExit(pid int) {
	for !errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH) {
		time.Sleep(10 * time.Millisecond)
	}
}

func adopt() {}

// reapGroup has nothing to wait for: awaitExit has.
func reapGroup(int) {}

// ReapOrphans has nothing to do: orphans become children of the first process.
func ReapOrphans() {}

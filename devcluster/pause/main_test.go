//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestWaitEndsOnTheFirstSignalThatIsNotAboutAChild(t *testing.T) {
	signals := make(chan os.Signal, 4)
	signals <- syscall.SIGCHLD
	signals <- syscall.SIGCHLD
	signals <- syscall.SIGTERM
	signals <- syscall.SIGCHLD

	reaped := 0
	wait(signals, func() { reaped++ })

	if reaped != 2 {
		t.Errorf("reaped %d times before SIGTERM, want 2", reaped)
	}
}

func TestReapLeavesNoZombie(t *testing.T) {
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Skipf("start a child: %v", err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		reap()
		if syscall.Kill(child.Process.Pid, 0) == syscall.ESRCH {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("child %d is still there after reap", child.Process.Pid)
}

// Package processgroup runs a program in its own process group.
//
// It promises that the whole group is gone when Run returns, and that the kernel kills the program when this process dies. It cannot reach
// a descendant that leaves the group (setsid) until the container ends, but in a program that calls ReapOrphans that descendant does not
// stay a zombie. The caller decides when to stop.
package processgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Descendants that left the group may keep its pipes open; do not wait for them.
const pipeWaitDelay = 500 * time.Millisecond

// Run runs the program until it ends. It sends a signal to the whole group when stop (SIGTERM) or kill (SIGKILL) closes. It returns how the
// program ended, or that it could not be started.
func Run(program *exec.Cmd, stop, kill <-chan struct{}) (*os.ProcessState, error) {
	program.SysProcAttr, program.WaitDelay = sysProcAttr(), pipeWaitDelay
	becomeSubreaper()
	// The kernel sends the parent-death signal when the thread that started the program ends, so keep that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := started.start(program); err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Args[0], err)
	}
	supervise(program.Process.Pid, stop, kill)
	err := program.Wait()
	started.forget(program.Process.Pid)
	reapGroup(program.Process.Pid)
	if program.ProcessState == nil {
		return nil, fmt.Errorf("wait for %s: %w", program.Args[0], err)
	}
	return program.ProcessState, nil
}

// supervise returns when the program has ended and no other process of its group is running. The program itself stays a zombie until
// then, so that its pid, which is the group's, cannot be reused.
func supervise(pid int, stop, kill <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitExit(pid)
	}()
	for {
		select {
		case <-ended:
			signalGroup(pid, syscall.SIGKILL)
			return
		case <-stop:
			stop = nil
			signalGroup(pid, syscall.SIGTERM)
		case <-kill:
			kill = nil
			signalGroup(pid, syscall.SIGKILL)
		}
	}
}

func signalGroup(pid int, signal syscall.Signal) {
	if err := syscall.Kill(-pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		panic(fmt.Sprintf("signal process group %d: %v", pid, err)) // the arguments are always valid
	}
}

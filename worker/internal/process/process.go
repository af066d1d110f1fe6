// Package process runs a program in a process group of its own.
//
// It promises that the whole group is gone when Run returns, and that the kernel kills the program when the worker dies.
// A descendant that leaves the group (setsid) is out of its reach until the container ends. It is the sibling of
// agent/internal/command, without payload, result and progress.
package process

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Descendants that left the group may hold its pipes open; they are not waited for.
const pipeDelay = 500 * time.Millisecond

// A Program is what is run.
type Program struct {
	Command        []string
	Environment    []string // all of it
	Stdout, Stderr io.Writer
	Grace          time.Duration // between SIGTERM and SIGKILL
}

// Run runs the program to its end: its own, or the one it is brought to when stop closes. It returns how it ended, or
// that it could not be started.
func (p Program) Run(stop <-chan struct{}) (string, error) {
	program := exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // ended by signals to its group, not by a context
	program.Env, program.Stdout, program.Stderr = p.Environment, p.Stdout, p.Stderr
	program.SysProcAttr = attributes()
	program.WaitDelay = pipeDelay

	adopt()
	// The kernel sends the parent-death signal when the thread dies that started the program, so it must live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := program.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", p.Command[0], err)
	}
	supervise(program.Process.Pid, stop, p.Grace)
	err := program.Wait()
	reapGroup(program.Process.Pid)
	if program.ProcessState == nil {
		return "", fmt.Errorf("wait for %s: %w", p.Command[0], err)
	}
	return program.ProcessState.String(), nil
}

// supervise returns when the program has ended and the rest of its group was killed. The program itself stays a zombie
// until then, so its number, which is the group's, cannot be given to anybody else in the meantime.
func supervise(pid int, stop <-chan struct{}, grace time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitExit(pid)
	}()
	var patience <-chan time.Time
	for {
		select {
		case <-ended:
			signalGroup(pid, syscall.SIGKILL)
			return
		case <-stop:
			stop, patience = nil, time.After(grace)
			signalGroup(pid, syscall.SIGTERM)
		case <-patience:
			signalGroup(pid, syscall.SIGKILL)
		}
	}
}

func signalGroup(pid int, signal syscall.Signal) {
	if err := syscall.Kill(-pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		panic(fmt.Sprintf("signal process group %d: %v", pid, err)) // the arguments are always valid
	}
}

// Package command is the exec runtime: it runs a program for one attempt, with the payload on standard input and the result
// on standard output.
//
// It promises that the program gets a process group of its own, that the whole group is gone when Run returns, and that
// the kernel kills the program when the agent dies. A descendant that leaves the group (setsid) is out of its reach
// until the container ends. Memory is bounded whatever the program prints.
package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

const (
	// MostResult is how much of a result is kept with the task.
	MostResult = 4 << 10
	// A program may print this much before it is clear that the result is too large: a JSON document with blanks in it
	// shrinks when they are taken out.
	mostOutput = 4 * MostResult
	mostStderr = 4 << 10
	// Descendants that left the group may hold its pipes open; they are not waited for.
	pipeDelay = 500 * time.Millisecond
)

// A Run is one execution of a program.
type Run struct {
	Command     []string
	Environment []string // all of it
	Payload     []byte
	Folder      string    // where the progress pipe may be made
	Stderr      io.Writer // gets a copy of what the program says there
	Progress    func(percent int32, message string)
}

// An Exit is how the program ended.
type Exit struct {
	State    exitState
	Output   []byte
	Overflow bool // it printed more than is kept
	Stderr   string
}

// exitState is the part of os.ProcessState that matters.
type exitState interface {
	ExitCode() int
	String() string
}

// Execute runs the program to its end: its own, or SIGTERM when stop closes and SIGKILL when kill does. The error says
// that it could not be started.
func (r Run) Execute(stop, kill <-chan struct{}) (Exit, error) {
	progress, err := openProgress(r.Folder, r.Progress)
	if err != nil {
		return Exit{}, err
	}
	defer progress.close()

	output, said := &head{most: mostOutput}, &tail{most: mostStderr}
	program := exec.Command(r.Command[0], r.Command[1:]...) //nolint:noctx // ended by signals to its group, not by a context
	program.Env = slices.Concat(r.Environment, []string{"SWARM_PROGRESS=" + progress.name})
	program.Stdin = bytes.NewReader(r.Payload)
	program.Stdout, program.Stderr = output, io.MultiWriter(said, r.Stderr)
	program.SysProcAttr = attributes()
	program.WaitDelay = pipeDelay

	adopt()
	// The kernel sends the parent-death signal when the thread dies that started the program, so it must live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := program.Start(); err != nil {
		return Exit{}, fmt.Errorf("start %s: %w", r.Command[0], err)
	}
	supervise(program.Process.Pid, stop, kill)
	err = program.Wait()
	reapGroup(program.Process.Pid)
	if program.ProcessState == nil {
		return Exit{}, fmt.Errorf("wait for %s: %w", r.Command[0], err)
	}
	return Exit{State: program.ProcessState, Output: output.kept, Overflow: output.overflow, Stderr: said.text()}, nil
}

// supervise returns when the program has ended and no other process of its group is left running. The program itself
// stays a zombie until then, so its number, which is the group's, cannot be given to anybody else in the meantime.
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

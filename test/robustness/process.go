package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a process may take to stop after SIGSTOP.
const stopTimeout = 2 * time.Second

var errProcessEnded = errors.New("the process has ended")

// A Process is a program under test that can be killed and suspended.
type Process struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it is dead

	mu        sync.Mutex
	suspended bool
	programs  []int // process groups that were suspended with it
}

// startProcess starts a program, which dies with this one.
func startProcess(command *exec.Cmd, output io.Writer) (*Process, error) {
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	p := &Process{command: command, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = command.Wait() // how it ended is in its state
	}()
	return p, nil
}

// Kill ends the process at once and returns when it is dead.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// Terminate asks the process to end.
func (p *Process) Terminate() { _ = p.command.Process.Signal(syscall.SIGTERM) }

// Suspend suspends the process and waits until it has stopped. Its programs are suspended with it, as in a frozen container.
func (p *Process) Suspend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspended {
		return errors.New("the process is suspended already")
	}
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return errProcessEnded
	}
	for began := time.Now(); time.Since(began) < stopTimeout; time.Sleep(time.Millisecond) {
		select {
		case <-p.ended:
			return errProcessEnded
		default:
		}
		if isStopped(p.command.Process.Pid) {
			p.suspended, p.programs = true, programsOf(p.command.Process.Pid)
			signalGroups(p.programs, syscall.SIGSTOP)
			return nil
		}
	}
	_ = p.command.Process.Signal(syscall.SIGCONT)
	return errors.New("the process does not stop")
}

// Resume resumes a suspended process. It calls the function right before.
func (p *Process) Resume(onResume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspended {
		p.suspended = false
		onResume()
		_ = p.command.Process.Signal(syscall.SIGCONT)
		signalGroups(p.programs, syscall.SIGCONT)
	}
}

// programsOf returns the process groups of the children of a process, without its own, which is also that of this process.
func programsOf(pid int) (groups []int) {
	own, _ := syscall.Getpgid(pid)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file) // empty if the process has ended
		_, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var parent, group int
		if _, err := fmt.Sscan(rest, &state, &parent, &group); err == nil && parent == pid && group != own && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups
}

// signalGroups ignores groups that have ended.
func signalGroups(groups []int, signal syscall.Signal) {
	for _, group := range groups {
		_ = syscall.Kill(-group, signal)
	}
}

// isStopped reports whether all threads of a process are stopped.
func isStopped(pid int) bool {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + thread.Name() + "/stat")
		if err != nil {
			continue // the thread has ended
		}
		if _, fields, _ := bytes.Cut(text, []byte(") ")); len(fields) == 0 || fields[0] != 'T' {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// Package process runs the program of a job: until it ends, or until it was asked to stop and its grace is over.
package process

import (
	"io"
	"os/exec"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/processgroup"
)

// A Program is what is run.
type Program struct {
	Command        []string
	Environment    []string // all of it
	Stdout, Stderr io.Writer
	Grace          time.Duration // between SIGTERM and SIGKILL
}

// Run runs the program to its end: its own, or the one it is brought to when stop closes, at once when force does. It
// returns how it ended, or that it could not be started.
func (p Program) Run(stop, kill <-chan struct{}) (string, error) {
	program := exec.Command(p.Command[0], p.Command[1:]...) //nolint:noctx // ended by signals to its group, not by a context
	program.Env, program.Stdout, program.Stderr = p.Environment, p.Stdout, p.Stderr
	done := make(chan struct{})
	defer close(done)
	state, err := processgroup.Run(program, stop, killAfter(p.Grace, stop, kill, done))
	if err != nil {
		return "", err
	}
	return state.String(), nil
}

// killAfter closes when the grace is over that begins with stop, or when force closes, unless the program has ended by then.
func killAfter(grace time.Duration, stop, killNow, done <-chan struct{}) <-chan struct{} {
	kill := make(chan struct{})
	go func() {
		select {
		case <-stop:
		case <-done:
			return
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			close(kill)
		case <-killNow:
			close(kill)
		case <-done:
		}
	}()
	return kill
}

// Package process runs the program of a job until it ends, or until it was asked to stop and its grace period is over.
package process

import (
	"io"
	"os/exec"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/processgroup"
)

// A Program is the program to run.
type Program struct {
	Command        []string
	Environment    []string // the whole environment
	Stdout, Stderr io.Writer
	Grace          time.Duration // between SIGTERM and SIGKILL
}

// Run runs the program until it ends. It asks the program to stop when stop closes, and kills it at once when force closes. It returns how
// the program ended, or that it could not be started.
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

// killAfter returns a channel that is closed when the grace period after stop is over, or when force closes, unless the program has ended
// by then.
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

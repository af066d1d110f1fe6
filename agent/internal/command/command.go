// Package command is the exec runtime: it runs a program for one attempt, with the payload on standard input and the result
// on standard output.
//
// It promises that the program gets its own process group, that the whole group is gone when Run returns, and that the kernel kills the
// program when the agent dies. It cannot reach a descendant that leaves the group (setsid) until the container ends. Memory is bounded
// whatever the program prints.
package command

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/processgroup"
)

const (
	// MaxResultBytes is the largest result that is stored with the task.
	MaxResultBytes = 4 << 10
	// A program may print this much before it is clear that the result is too large: a JSON document shrinks when its whitespace is
	// removed.
	maxOutputBytes = 4 * MaxResultBytes
	maxStderrBytes = 4 << 10
	// Descendants that left the group may keep the progress pipe open; do not wait for them.
	pipeDelay = 500 * time.Millisecond
)

// A Run is one execution of a program.
type Run struct {
	Command     []string
	Environment []string // the whole environment
	Payload     []byte
	Dir         string    // where the progress pipe may be made
	Stderr      io.Writer // gets a copy of the program's standard error
	Progress    func(percent int32, message string)
}

// An Exit describes how the program ended.
type Exit struct {
	State    exitState
	Output   []byte
	Overflow bool // it printed more than the limit
	Stderr   string
}

// exitState is the part of os.ProcessState that is used here.
type exitState interface {
	ExitCode() int
	String() string
}

// Execute runs the program until it ends. It sends SIGTERM when stop closes, and SIGKILL when kill closes. It returns an error if the
// program could not be started.
func (r Run) Execute(stop, kill <-chan struct{}) (Exit, error) {
	progress, err := openProgressPipe(r.Dir, r.Progress)
	if err != nil {
		return Exit{}, err
	}
	defer progress.close()

	output, stderr := &headBuffer{maxBytes: maxOutputBytes}, &tailBuffer{maxBytes: maxStderrBytes}
	program := exec.Command(r.Command[0], r.Command[1:]...) //nolint:noctx // ended by signals to its group, not by a context
	program.Env = slices.Concat(r.Environment, []string{"SWARM_PROGRESS=" + progress.name})
	program.Stdin = bytes.NewReader(r.Payload)
	program.Stdout, program.Stderr = output, io.MultiWriter(stderr, r.Stderr)
	state, err := processgroup.Run(program, stop, kill)
	if err != nil {
		return Exit{}, err
	}
	return Exit{State: state, Output: output.content, Overflow: output.overflow, Stderr: stderr.text()}, nil
}

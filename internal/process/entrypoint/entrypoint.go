// Package entrypoint is what swarm-agent and swarm-worker, the entry points of images, have in common: their exit codes, how they read
// "run --", and how they stop on SIGTERM.
package entrypoint

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/swarm-io/swarm-operator/internal/process/processgroup"
)

const (
	exitFailed = 1
	exitUsage  = 64
)

// A Program is one of them.
type Program struct{ Name, Usage string }

// PrintUsage prints how the program is called, and returns the exit code for a wrong call.
func (p Program) PrintUsage(stderr io.Writer) int {
	_, _ = io.WriteString(stderr, p.Usage)
	return exitUsage
}

// Report prints an error, and returns the exit code for it.
func (p Program) Report(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	return exitFailed
}

// RunUntilSignal runs what runs programs of its own, until SIGTERM or SIGINT. All children of this process must be those programs, or
// orphans of theirs: orphans are reaped.
func RunUntilSignal(run func(context.Context) error) error {
	processgroup.ReapOrphans()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return run(ctx)
}

// TrimRunPrefix returns the command behind "run" and "--".
func TrimRunPrefix(arguments []string) []string {
	for _, word := range []string{"run", "--"} {
		if len(arguments) > 0 && arguments[0] == word {
			arguments = arguments[1:]
		}
	}
	return arguments
}

// Command research is what the agents of the demo run: one process for each attempt of a task. It reads a few notes about a topic, reports
// its progress, and prints what it found. Its whole output is computed from the notes; only its pace is set by the payload.
//
// It is also the shortest example of a program for runtime.exec, which docs/explanation/link.md describes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes that the agent understands.
const (
	exitBadInput = 65 // trying again would be of no use
	exitTryAgain = 75
)

var (
	errBadInput = errors.New("bad input")
	errTryAgain = errors.New("try again")
)

// An attempt is what the agent passes to this one.
type attempt struct {
	agent    string
	number   string
	progress io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "research:", err)
		os.Exit(exitCode(err))
	}
}

func exitCode(err error) int {
	switch {
	case errors.Is(err, errBadInput):
		return exitBadInput
	case errors.Is(err, errTryAgain):
		return exitTryAgain
	}
	return 1
}

func start(ctx context.Context) error {
	this := attempt{agent: os.Getenv("SWARM_AGENT"), number: os.Getenv("SWARM_ATTEMPT"), progress: os.Stderr}
	if path := os.Getenv("SWARM_PROGRESS"); path != "" {
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("open progress: %w", err)
		}
		defer pipe.Close()
		this.progress = pipe
	}
	return run(ctx, this, os.Args[1:], os.Stdin, os.Stdout)
}

// run answers one payload.
func run(ctx context.Context, this attempt, arguments []string, in io.Reader, out io.Writer) error {
	method, err := methodOf(arguments)
	if err != nil {
		return err
	}
	wanted, err := parse(in)
	if err != nil {
		return err
	}
	read, err := study(ctx, this, wanted)
	if err != nil {
		return err
	}
	found := method(read, wanted.Topic)
	found.Topic, found.Agent = wanted.Topic, this.agent
	if err := json.NewEncoder(out).Encode(found); err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	return nil
}

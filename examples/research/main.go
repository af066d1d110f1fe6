// Command research is the program that the agents of the demo run: one process for each attempt at a task. It reads a few notes about a
// topic, reports its progress, and prints what it found. Its output is computed from the notes; the payload sets only its pace.
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
	exitBadInput = 65 // a retry would be useless
	exitRetry    = 75
)

var (
	errBadInput = errors.New("bad input")
	errRetry    = errors.New("try again")
)

// An attempt is what the agent passes to this process.
type attempt struct {
	agent    string
	number   string
	progress io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runAttempt(ctx)
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
	case errors.Is(err, errRetry):
		return exitRetry
	}
	return 1
}

func runAttempt(ctx context.Context) error {
	att := attempt{agent: os.Getenv("SWARM_AGENT"), number: os.Getenv("SWARM_ATTEMPT"), progress: os.Stderr}
	if path := os.Getenv("SWARM_PROGRESS"); path != "" {
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("open progress: %w", err)
		}
		defer pipe.Close()
		att.progress = pipe
	}
	return run(ctx, att, os.Args[1:], os.Stdin, os.Stdout)
}

// run answers one payload.
func run(ctx context.Context, att attempt, arguments []string, in io.Reader, out io.Writer) error {
	method, err := parseMethod(arguments)
	if err != nil {
		return err
	}
	p, err := parsePayload(in)
	if err != nil {
		return err
	}
	notes, err := readNotes(ctx, att, p)
	if err != nil {
		return err
	}
	result := method(notes, p.Topic)
	result.Topic, result.Agent = p.Topic, att.agent
	if err := json.NewEncoder(out).Encode(result); err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	return nil
}

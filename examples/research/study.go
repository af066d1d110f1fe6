package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// study reads the notes, a few in each step, and reports its progress.
func study(ctx context.Context, this attempt, wanted payload) (library, error) {
	all, err := shelf()
	if err != nil {
		return nil, err
	}
	var read library
	for step := 1; step <= wanted.Steps; step++ {
		next := all[len(read) : len(all)*step/wanted.Steps]
		read = append(read, next...)
		if err := rest(ctx, wanted.pause()); err != nil {
			return nil, fmt.Errorf("%w: stopped after %d of %d notes", errTryAgain, len(read), len(all))
		}
		if wanted.Flaky && this.number == "1" && step*2 >= wanted.Steps {
			return nil, fmt.Errorf("%w: a flaky topic fails its first attempt, here after %d of %d notes", errTryAgain, len(read), len(all))
		}
		// The reader may be gone already, and then the number is not missed.
		_, _ = fmt.Fprintln(this.progress, step*100/wanted.Steps, strings.TrimSpace("read "+titles(next)))
	}
	return read, nil
}

func rest(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

func titles(notes library) string {
	names := make([]string, 0, len(notes))
	for _, note := range notes {
		names = append(names, note.title)
	}
	if len(names) == 0 {
		return "on"
	}
	return strings.Join(names, ", ")
}

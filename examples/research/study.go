package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// readNotes reads the notes, a few in each step, and reports its progress.
func readNotes(ctx context.Context, att attempt, p payload) (noteSet, error) {
	all, err := loadNotes()
	if err != nil {
		return nil, err
	}
	var notes noteSet
	for step := 1; step <= p.Steps; step++ {
		batch := all[len(notes) : len(all)*step/p.Steps]
		notes = append(notes, batch...)
		if err := sleep(ctx, p.pause()); err != nil {
			return nil, fmt.Errorf("%w: stopped after %d of %d notes", errRetry, len(notes), len(all))
		}
		if p.Flaky && att.number == "1" && step*2 >= p.Steps {
			return nil, fmt.Errorf("%w: a flaky topic fails its first attempt, here after %d of %d notes", errRetry, len(notes), len(all))
		}
		// The reader may already be gone, and then the number does not matter.
		_, _ = fmt.Fprintln(att.progress, step*100/p.Steps, strings.TrimSpace("read "+joinTitles(batch)))
	}
	return notes, nil
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

func joinTitles(notes noteSet) string {
	names := make([]string, 0, len(notes))
	for _, note := range notes {
		names = append(names, note.title)
	}
	if len(names) == 0 {
		return "on"
	}
	return strings.Join(names, ", ")
}

package main

import (
	"context"
	"testing"

	"github.com/swarm-io/swarm-operator/agent"
)

// Programs and code in the process of the agent do the same.
func TestOrdersAreCarriedOut(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for reason, c := range map[string]struct {
		ctx     context.Context
		wanted  taskOrder
		attempt int
		fails   bool
	}{
		"work":                       {t.Context(), taskOrder{Milliseconds: 5}, 1, false},
		"an attempt that is to fail": {t.Context(), taskOrder{Milliseconds: 5, Failures: 1}, 1, true},
		"the attempt after it":       {t.Context(), taskOrder{Milliseconds: 5, Failures: 1}, 2, false},
		"work that is asked to stop": {stopped, taskOrder{Milliseconds: 1_000_000}, 1, true},
	} {
		for name, do := range map[string]func(context.Context, taskOrder, agent.Task) error{"code": work, "program": runInProcessGroup} {
			if err := do(c.ctx, c.wanted, agent.Task{Attempt: c.attempt, StateDir: t.TempDir()}); (err != nil) != c.fails {
				t.Errorf("%s, %s: %v", name, reason, err)
			}
		}
	}
}

func TestScript(t *testing.T) {
	got := taskOrder{Milliseconds: 12_034, IgnoresStop: true, Failures: 1}.script(1)
	if want := "trap '' TERM; sleep 12.034; exit 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

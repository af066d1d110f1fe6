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
		wanted  order
		attempt int
		fails   bool
	}{
		"work":                       {t.Context(), order{Milliseconds: 5}, 1, false},
		"an attempt that is to fail": {t.Context(), order{Milliseconds: 5, Failures: 1}, 1, true},
		"the attempt after it":       {t.Context(), order{Milliseconds: 5, Failures: 1}, 2, false},
		"work that is asked to stop": {stopped, order{Milliseconds: 1_000_000}, 1, true},
	} {
		for name, do := range map[string]func(context.Context, order, agent.Task) error{"code": work, "program": runProgram} {
			if err := do(c.ctx, c.wanted, agent.Task{Attempt: c.attempt, StateDir: t.TempDir()}); (err != nil) != c.fails {
				t.Errorf("%s, %s: %v", name, reason, err)
			}
		}
	}
}

func TestScript(t *testing.T) {
	got := order{Milliseconds: 12_034, Stubborn: true, Failures: 1}.script(1)
	if want := "trap '' TERM; sleep 12.034; exit 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

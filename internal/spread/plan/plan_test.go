package plan

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/testkit/build"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestPlan(t *testing.T) {
	later := noon.Add(time.Hour)
	for name, test := range map[string]struct {
		pending        bool
		constraints    constraints
		problem        string // of the workload's own annotations
		hold           string // of the objects
		severalBudgets bool

		moves  int
		status string
		reason string
		again  time.Time
	}{
		"a pod is moved": {moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"the windows turn": {constraints: constraints{recheckAt: later}, moves: 1, status: "Rebalancing",
			reason: "moving 1 pod", again: later},
		"the windows are closed": {
			constraints: constraints{hold: "closed", recheckAt: later}, status: "Rebalancing",
			reason: "waiting: closed", again: later},
		"a pod that waits in vain goes in spite of windows": {
			pending: true, constraints: constraints{hold: "closed"}, moves: 1, status: "SpotUnavailable",
			reason: "1 pod short on spot nodes, which have no room"},
		"read-only": {
			constraints: constraints{frozen: "read-only", hold: "read-only"}, status: "Rebalancing",
			reason: "waiting: read-only"},
		"read-only, and a pod waits in vain": {
			pending: true, constraints: constraints{frozen: "read-only"}, status: "SpotUnavailable",
			reason: "waiting: read-only"},
		"never covered": {
			constraints: constraints{unsupported: "no webhook", frozen: "no webhook", hold: "no webhook"},
			status:      "Invalid: no webhook", reason: "nothing is moved"},
		"windows that cannot be read": {
			constraints: constraints{invalid: "what?", hold: "what?"},
			status:      "Invalid: what?", reason: "Ready pods stay where they are"},
		"a bad setting": {
			problem: "101", moves: 1, status: "Invalid: 101", reason: "the last valid setting stays: at least 0 on-demand, 50% spot"},
		"several budgets": {
			severalBudgets: true, hold: "2 budgets", status: "BlockedByPDB", reason: "2 budgets"},
		"several budgets, and the windows are closed": {
			severalBudgets: true, hold: "2 budgets", constraints: constraints{hold: "closed"}, status: "Rebalancing", reason: "waiting: closed"},
	} {
		t.Run(name, func(t *testing.T) {
			input := Input{Snapshot: build.Misplaced(test.pending, noon), SeveralBudgets: test.severalBudgets}
			input.Snapshot.Hold, input.Snapshot.Problem = test.hold, test.problem
			p := newPlan(input, test.constraints, noon)
			if len(p.Moves) != test.moves || p.StatusText() != test.status || p.Decision.Reason != test.reason || !p.RecheckAt.Equal(test.again) {
				t.Errorf("%d moves, %q, %q, again %s\nwant %d, %q, %q, %s",
					len(p.Moves), p.StatusText(), p.Decision.Reason, p.RecheckAt, test.moves, test.status, test.reason, test.again)
			}
		})
	}
}

func TestWindows(t *testing.T) {
	for text, want := range map[string]constraints{
		"":                                {},
		"0 11 * * * for 2h":               {recheckAt: noon.Add(time.Hour)},
		"0 13 * * * for 2h":               {recheckAt: noon.Add(time.Hour), hold: "the disruption windows are closed until 2026-05-01T13:00:00Z"},
		"0 13 * * * for 2h; * 12 * * * x": {invalid: "?"},
	} {
		got := evaluateWindows(text, noon)
		if want.invalid != "" {
			if got.invalid == "" || got.hold != got.invalid || !got.recheckAt.IsZero() {
				t.Errorf("%q: %+v", text, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

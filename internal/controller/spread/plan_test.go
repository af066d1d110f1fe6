package spread

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

func keyOf(name string) workload.Key {
	return workload.Key{Kind: v1alpha1.WorkloadDeployment, NamespacedName: types.NamespacedName{Namespace: "demo", Name: name}}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// newInput returns an input in which one of two pods is to be moved to spot nodes: evicted, or deleted if it could not be scheduled in
// time.
func newInput(pending bool) split.Snapshot {
	pods := []split.Pod{
		{Name: "a", Number: 0, AssignedClass: split.OnDemand, NodeClass: split.OnDemand, Phase: split.Ready},
		{Name: "b", Number: 1, AssignedClass: split.Spot, NodeClass: split.OnDemand, Phase: split.Ready},
	}
	input := split.Snapshot{
		Policy: &split.Policy{SpotPercent: 50}, Replicas: 2, Pods: pods, Now: noon, PendingDeadline: time.Minute,
		Spot: split.Capacity{Nodes: 1}, OnDemand: split.Capacity{Nodes: 1}, Budget: split.Budget{Allowed: split.NoLimit, Step: 1},
	}
	if pending {
		input.Spot.Nodes, input.Spot.Static = 0, true
		input.Pods[1].NodeClass, input.Pods[1].Phase = "", split.Pending
	}
	return input
}

func TestPlan(t *testing.T) {
	soon, later := noon.Add(10*time.Second), noon.Add(time.Hour)
	for name, test := range map[string]struct {
		pending bool
		seen    workloadSnapshot
		hold    string
		problem string
		wish    string // the problem of the workload's own annotations
		refused refusal

		moves  int
		status string
		reason string
		again  time.Time
	}{
		"a pod is moved": {moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"the windows turn": {seen: workloadSnapshot{constraints: constraints{recheckAt: later}}, moves: 1, status: "Rebalancing",
			reason: "moving 1 pod", again: later},
		"the windows are closed": {
			seen: workloadSnapshot{constraints: constraints{hold: "closed", recheckAt: later}}, hold: "closed", status: "Rebalancing",
			reason: "waiting: closed", again: later},
		"a pod that waits in vain goes in spite of windows": {
			pending: true, seen: workloadSnapshot{constraints: constraints{hold: "closed"}}, hold: "closed", moves: 1, status: "SpotUnavailable",
			reason: "1 pod short on spot nodes, which have no room"},
		"read-only": {
			seen: workloadSnapshot{constraints: constraints{frozen: "read-only", hold: "read-only"}}, hold: "read-only", status: "Rebalancing",
			reason: "waiting: read-only"},
		"read-only, and a pod waits in vain": {
			pending: true, seen: workloadSnapshot{constraints: constraints{frozen: "read-only"}}, hold: "read-only", status: "SpotUnavailable",
			reason: "waiting: read-only"},
		"never covered": {
			seen: workloadSnapshot{constraints: constraints{unsupported: "no webhook", frozen: "no webhook"}}, hold: "no webhook",
			problem: "no webhook", status: "Invalid: no webhook", reason: "nothing is moved"},
		"windows that cannot be read": {
			seen: workloadSnapshot{constraints: constraints{invalid: "what?", hold: "what?"}}, hold: "what?", problem: "what?",
			status: "Invalid: what?", reason: "Ready pods stay where they are"},
		"a bad setting": {
			problem: "101", wish: "101", moves: 1, status: "Invalid: 101", reason: "the last valid setting stays: at least 0 on-demand, 50% spot"},
		"budgets have refused": {
			seen: workloadSnapshot{budgetVersions: "a@1"}, refused: refusal{reason: "budget", budgetVersions: "a@1", retryAt: soon},
			status: "BlockedByPDB", reason: "budget", again: soon},
		"budgets have changed since": {
			seen: workloadSnapshot{budgetVersions: "a@2"}, refused: refusal{reason: "budget", budgetVersions: "a@1", retryAt: soon}, moves: 1,
			status: "Rebalancing", reason: "moving 1 pod"},
		"budgets have refused long ago": {
			refused: refusal{reason: "budget", retryAt: noon}, moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"budgets have refused, and a pod waits in vain": {
			pending: true, refused: refusal{reason: "budget", retryAt: soon}, moves: 1, status: "SpotUnavailable",
			reason: "1 pod short on spot nodes, which have no room"},
		"several budgets": {
			seen: workloadSnapshot{severalBudgets: true}, hold: "2 budgets", status: "BlockedByPDB", reason: "2 budgets"},
		"several budgets have refused, and one has changed": {
			seen:    workloadSnapshot{budgetVersions: "a@2,b@1", severalBudgets: true},
			refused: refusal{reason: "several", budgetVersions: "a@1,b@1", retryAt: soon, severalBudgets: true}, status: "BlockedByPDB",
			reason: "several", again: soon},
		"several budgets have refused, and one is left": {
			seen: workloadSnapshot{budgetVersions: "a@1"}, refused: refusal{reason: "several", budgetVersions: "a@1,b@1", retryAt: soon,
				severalBudgets: true}, moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"several budgets have refused, of which the cache knows one": {
			seen: workloadSnapshot{budgetVersions: "a@1"}, refused: refusal{reason: "several", budgetVersions: "a@1", retryAt: soon,
				severalBudgets: true}, status: "BlockedByPDB", reason: "several", again: soon},
	} {
		t.Run(name, func(t *testing.T) {
			test.seen.input = newInput(test.pending)
			test.seen.input.Hold, test.seen.input.Problem = test.hold, test.problem
			p := makePlan(test.seen, target{spec: snapshot.Spec{Problem: test.wish}, state: &workloadState{lastRefusal: test.refused}, now: noon})
			if len(p.Moves) != test.moves || p.statusText() != test.status || p.Decision.Reason != test.reason || !p.RecheckAt.Equal(test.again) {
				t.Errorf("%d moves, %q, %q, again %s\nwant %d, %q, %q, %s",
					len(p.Moves), p.statusText(), p.Decision.Reason, p.RecheckAt, test.moves, test.status, test.reason, test.again)
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

func TestWindowsPrecedence(t *testing.T) {
	s := newHarness(t, 1)
	s.settings.Windows = "configured"
	web := target{Workload: workload.Deployment(s.getDeployment())}
	expect := func(want string) {
		t.Helper()
		if got, err := s.windowsText(t.Context(), web); got != want || err != nil {
			t.Errorf("%q counts, want %q: %v", got, want, err)
		}
	}
	expect("configured")
	s.setNamespaceWindows("namespace's")
	expect("namespace's")
	web.spec.Windows = "own"
	expect("own")
}

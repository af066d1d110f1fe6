package spread

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

func keyOf(name string) survey.Key {
	return survey.Key{Kind: v1alpha1.WorkloadDeployment, NamespacedName: types.NamespacedName{Namespace: "demo", Name: name}}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// strayed returns a world in which one of two pods is to be moved to spot nodes: evicted, or deleted if it has waited in vain.
func strayed(pending bool) engine.Snapshot {
	pods := []engine.Pod{
		{Name: "a", Number: 0, AssignedClass: engine.OnDemand, NodeClass: engine.OnDemand, Phase: engine.Ready},
		{Name: "b", Number: 1, AssignedClass: engine.Spot, NodeClass: engine.OnDemand, Phase: engine.Ready},
	}
	world := engine.Snapshot{
		Policy: &engine.Policy{SpotPercent: 50}, Replicas: 2, Pods: pods, Now: noon, PendingDeadline: time.Minute,
		Spot: engine.Capacity{Nodes: 1}, OnDemand: engine.Capacity{Nodes: 1}, Budget: engine.Budget{Allowed: engine.NoLimit, Step: 1},
	}
	if pending {
		world.Spot.Nodes, world.Spot.Static = 0, true
		world.Pods[1].NodeClass, world.Pods[1].Phase = "", engine.Pending
	}
	return world
}

func TestPlan(t *testing.T) {
	soon, late := noon.Add(10*time.Second), noon.Add(time.Hour)
	for name, test := range map[string]struct {
		pending bool
		seen    sight
		hold    string
		problem string
		wish    string // the problem of the workload's own annotations
		refused refusal

		moves  int
		status string
		reason string
		again  time.Time
	}{
		"a pod is moved":   {moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"the windows turn": {seen: sight{rules: rules{turn: late}}, moves: 1, status: "Rebalancing", reason: "moving 1 pod", again: late},
		"the windows are closed": {
			seen: sight{rules: rules{hold: "closed", turn: late}}, hold: "closed", status: "Rebalancing", reason: "waiting: closed", again: late},
		"a pod that waits in vain goes in spite of windows": {
			pending: true, seen: sight{rules: rules{hold: "closed"}}, hold: "closed", moves: 1, status: "SpotUnavailable", reason: "1 pod short on spot nodes, which have no room"},
		"read-only": {
			seen: sight{rules: rules{still: "read-only", hold: "read-only"}}, hold: "read-only", status: "Rebalancing", reason: "waiting: read-only"},
		"read-only, and a pod waits in vain": {
			pending: true, seen: sight{rules: rules{still: "read-only"}}, hold: "read-only", status: "SpotUnavailable", reason: "waiting: read-only"},
		"never covered": {
			seen: sight{rules: rules{never: "no webhook", still: "no webhook"}}, hold: "no webhook", problem: "no webhook", status: "Invalid: no webhook", reason: "nothing is moved"},
		"windows that cannot be read": {
			seen: sight{rules: rules{wrong: "what?", hold: "what?"}}, hold: "what?", problem: "what?", status: "Invalid: what?", reason: "Ready pods stay where they are"},
		"a bad setting": {
			problem: "101", wish: "101", moves: 1, status: "Invalid: 101", reason: "the last good setting stays: at least 0 on-demand, 50% spot"},
		"budgets have refused": {
			seen: sight{budgets: "a@1"}, refused: refusal{reason: "budget", budgets: "a@1", until: soon}, status: "BlockedByPDB", reason: "budget", again: soon},
		"budgets have changed since": {
			seen: sight{budgets: "a@2"}, refused: refusal{reason: "budget", budgets: "a@1", until: soon}, moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"budgets have refused long ago": {
			refused: refusal{reason: "budget", until: noon}, moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"budgets have refused, and a pod waits in vain": {
			pending: true, refused: refusal{reason: "budget", until: soon}, moves: 1, status: "SpotUnavailable", reason: "1 pod short on spot nodes, which have no room"},
		"several budgets": {
			seen: sight{crowded: true}, hold: "2 budgets", status: "BlockedByPDB", reason: "2 budgets"},
		"several budgets have refused, and one has changed": {
			seen: sight{budgets: "a@2,b@1", crowded: true}, refused: refusal{reason: "several", budgets: "a@1,b@1", until: soon, crowded: true}, status: "BlockedByPDB", reason: "several", again: soon},
		"several budgets have refused, and one is left": {
			seen: sight{budgets: "a@1"}, refused: refusal{reason: "several", budgets: "a@1,b@1", until: soon, crowded: true}, moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"several budgets have refused, of which the cache knows one": {
			seen: sight{budgets: "a@1"}, refused: refusal{reason: "several", budgets: "a@1", until: soon, crowded: true}, status: "BlockedByPDB", reason: "several", again: soon},
	} {
		t.Run(name, func(t *testing.T) {
			test.seen.world = strayed(test.pending)
			test.seen.world.Hold, test.seen.world.Problem = test.hold, test.problem
			made := plan(test.seen, subject{wish: survey.Spec{Problem: test.wish}, memory: &memory{refused: test.refused}, now: noon})
			if len(made.Moves) != test.moves || made.status() != test.status || made.Decision.Reason != test.reason || !made.Again.Equal(test.again) {
				t.Errorf("%d moves, %q, %q, again %s\nwant %d, %q, %q, %s",
					len(made.Moves), made.status(), made.Decision.Reason, made.Again, test.moves, test.status, test.reason, test.again)
			}
		})
	}
}

func TestWindows(t *testing.T) {
	for text, want := range map[string]rules{
		"":                                {},
		"0 11 * * * for 2h":               {turn: noon.Add(time.Hour)},
		"0 13 * * * for 2h":               {turn: noon.Add(time.Hour), hold: "the disruption windows are closed until 2026-05-01T13:00:00Z"},
		"0 13 * * * for 2h; * 12 * * * x": {wrong: "?"},
	} {
		got := windowed(text, noon)
		if want.wrong != "" {
			if got.wrong == "" || got.hold != got.wrong || !got.turn.IsZero() {
				t.Errorf("%q: %+v", text, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestWhoseWindowsCount(t *testing.T) {
	s := newStage(t, 1)
	s.settings.Windows = "configured"
	of := subject{Workload: survey.Deployment(s.deployment())}
	expect := func(want string) {
		t.Helper()
		if got, err := s.windows(t.Context(), of); got != want || err != nil {
			t.Errorf("%q counts, want %q: %v", got, want, err)
		}
	}
	expect("configured")
	s.namespace("namespace's")
	expect("namespace's")
	of.wish.Windows = "own"
	expect("own")
}

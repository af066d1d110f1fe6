package spread

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/testkit/build"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

func keyOf(name string) workload.Key {
	return workload.Key{Kind: v1alpha1.WorkloadDeployment, NamespacedName: types.NamespacedName{Namespace: "demo", Name: name}}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestPlanAfterARefusal(t *testing.T) {
	soon := noon.Add(10 * time.Second)
	for name, test := range map[string]struct {
		pending  bool
		versions string // of the budgets
		several  bool   // budgets cover one pod
		refused  refusal

		moves  int
		status string
		reason string
		again  time.Time
	}{
		"budgets have refused": {
			versions: "a@1", refused: refusal{plan.Refusal{Reason: "budget", RetryAt: soon}, "a@1"},
			status: "BlockedByPDB", reason: "budget", again: soon},
		"budgets have changed since": {
			versions: "a@2", refused: refusal{plan.Refusal{Reason: "budget", RetryAt: soon}, "a@1"}, moves: 1,
			status: "Rebalancing", reason: "moving 1 pod"},
		"budgets have refused long ago": {
			refused: refusal{plan.Refusal{Reason: "budget", RetryAt: noon}, ""}, moves: 1, status: "Rebalancing", reason: "moving 1 pod"},
		"budgets have refused, and a pod waits in vain": {
			pending: true, refused: refusal{plan.Refusal{Reason: "budget", RetryAt: soon}, ""}, moves: 1, status: "SpotUnavailable",
			reason: "1 pod short on spot nodes, which have no room"},
		"several budgets have refused, and one has changed": {
			versions: "a@2,b@1", several: true,
			refused: refusal{plan.Refusal{Reason: "several", RetryAt: soon, SeveralBudgets: true}, "a@1,b@1"}, status: "BlockedByPDB",
			reason: "several", again: soon},
		"several budgets have refused, and one is left": {
			versions: "a@1", refused: refusal{plan.Refusal{Reason: "several", RetryAt: soon, SeveralBudgets: true}, "a@1,b@1"}, moves: 1,
			status: "Rebalancing", reason: "moving 1 pod"},
		"several budgets have refused, of which the cache knows one": {
			versions: "a@1", refused: refusal{plan.Refusal{Reason: "several", RetryAt: soon, SeveralBudgets: true}, "a@1"},
			status: "BlockedByPDB", reason: "several", again: soon},
	} {
		t.Run(name, func(t *testing.T) {
			seen := workloadSnapshot{budgetVersions: test.versions, input: plan.Input{
				Snapshot: build.Misplaced(test.pending, noon), SeveralBudgets: test.several, Admission: plan.Admission{Covered: true}}}
			p := makePlan(seen, target{state: &workloadState{lastRefusal: test.refused}, now: noon})
			if len(p.Moves) != test.moves || p.StatusText() != test.status || p.Decision.Reason != test.reason || !p.RecheckAt.Equal(test.again) {
				t.Errorf("%d moves, %q, %q, again %s\nwant %d, %q, %q, %s",
					len(p.Moves), p.StatusText(), p.Decision.Reason, p.RecheckAt, test.moves, test.status, test.reason, test.again)
			}
		})
	}
}

package spread

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/state"
)

// workloadSnapshot is the observed state of a workload.
type workloadSnapshot struct {
	input          plan.Input
	pods           map[string]*corev1.Pod // from the cache: they must not be modified
	nodes          state.Nodes
	budgetVersions string // changes whenever a budget changes
}

// observe reads everything once, from caches and memory.
func (c *controller) observe(ctx context.Context, t target) (workloadSnapshot, error) {
	pods, err := c.listPods(ctx, t.Key)
	if err != nil {
		return workloadSnapshot{}, err
	}
	pods = t.state.markRemoved(pods, t.now)
	snap := workloadSnapshot{pods: make(map[string]*corev1.Pod, len(pods))}
	for _, pod := range pods {
		snap.pods[pod.Name] = pod
	}
	if snap.nodes, err = c.nodes.snapshotFor(ctx, pods); err != nil {
		return snap, err
	}
	reader := state.Reader{Reader: c.client, Settings: c.settings}
	budgets, err := reader.Budgets(ctx, t.Key.Namespace)
	if err != nil {
		return snap, err
	}
	snap.budgetVersions = budgetVersions(budgets)
	objects := snapshot.Objects{
		Workload: t.Workload, Spec: t.spec, Pods: pods, Nodes: snap.nodes.ByName, Budgets: budgets,
		History: c.states.history(t.state, snap.nodes, t.now), Now: t.now,
	}
	objects.History.UngatedAt = t.state.ungatedAt(pods, t.now)
	covered, never := c.coverage.Covers(ctx, t.Key.Namespace)
	snap.input, err = reader.Input(ctx, objects, plan.Admission{Covered: covered, Never: never})
	return snap, err
}

func budgetVersions(budgets []*policyv1.PodDisruptionBudget) string {
	var versions []string
	for _, budget := range budgets {
		versions = append(versions, budget.Name+"@"+budget.ResourceVersion)
	}
	slices.Sort(versions)
	return strings.Join(versions, ",")
}

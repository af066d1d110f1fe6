package swarm

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/manifest"
)

// report is the only status write of the controller.
func (r *reconciler) report(ctx context.Context, wanted manifest.Swarm, world world) error {
	swarm := wanted.Swarm
	report := r.status.Report(swarm, &swarm.Status.Conditions)
	count(wanted, world)
	desired, active := total(wanted.Counts), int(swarm.Status.ActiveAgents)
	switch {
	case swarm.Spec.Mode == v1alpha1.SwarmSuspended:
		report.Normal(v1alpha1.NotReady(swarm.Generation, v1alpha1.ReasonSuspended, "suspended: set mode to Running to go on"))
		report.Condition(v1alpha1.Settled(swarm.Generation, v1alpha1.ReasonSuspended, ""))
	case active == desired:
		report.Normal(v1alpha1.Ready(swarm.Generation, v1alpha1.ReasonAvailable, fmt.Sprintf("all %d agents are ready for work", desired)))
		report.Condition(v1alpha1.Settled(swarm.Generation, v1alpha1.ReasonSettled, ""))
	default:
		message := fmt.Sprintf("%d of %d agents are ready for work, %d have a ready pod", active, desired, swarm.Status.ReadyAgents)
		report.Normal(v1alpha1.NotReady(swarm.Generation, v1alpha1.ReasonInitializing, message))
		report.Condition(v1alpha1.Progressing(swarm.Generation, v1alpha1.ReasonInitializing, message))
	}
	swarm.Status.Phase = phase(swarm)
	return report.Write(ctx)
}

// count fills in the numbers.
func count(wanted manifest.Swarm, world world) {
	status := &wanted.Status
	status.ObservedGeneration = wanted.Generation
	status.Selector = v1alpha1.LabelSwarm + "=" + wanted.Name
	status.Replicas, status.ActiveAgents, status.ReadyAgents = int32(len(world.agents)), 0, 0
	for n := range world.agents {
		if meta.IsStatusConditionTrue(world.agents[n].Status.Conditions, v1alpha1.ConditionReady) {
			status.ActiveAgents++
		}
	}
	status.Types = status.Types[:0]
	for n, kind := range wanted.Spec.Agents {
		ready := world.ready(wanted.Workload(kind.Type))
		status.ReadyAgents += ready
		status.Types = append(status.Types, v1alpha1.AgentTypeStatus{Type: kind.Type, Desired: int32(wanted.Counts[n]), Ready: ready})
	}
}

// phase sums up the conditions: a swarm that was once ready keeps running, however degraded.
func phase(swarm *v1alpha1.Swarm) v1alpha1.SwarmPhase {
	switch {
	case !swarm.DeletionTimestamp.IsZero():
		return v1alpha1.SwarmPhaseTerminating
	case meta.IsStatusConditionTrue(swarm.Status.Conditions, v1alpha1.ConditionReady), swarm.Status.Phase == v1alpha1.SwarmPhaseRunning:
		return v1alpha1.SwarmPhaseRunning
	default:
		return v1alpha1.SwarmPhaseInitializing
	}
}

func total(counts []int) int {
	sum := 0
	for _, count := range counts {
		sum += count
	}
	return sum
}

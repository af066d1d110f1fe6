package swarm

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// shownEvery is the minimum interval between writes of the numbers of tasks.
const shownEvery = 10 * time.Second

// numbers clears the part of the status that can be delayed.
func numbers(swarm *v1alpha1.Swarm) { swarm.Status.Tasks, swarm.Status.Epoch = nil, 0 }

// report is the only status write of the controller, except for the last one.
func (r *reconciler) report(ctx context.Context, wanted manifest.Swarm, world world, failed error) (kit.Result, error) {
	swarm := wanted.Swarm
	report := r.status.Report(swarm, &swarm.Status.Conditions)
	count(wanted, world)
	if world.forged {
		report.Event(corev1.EventTypeWarning, string(v1alpha1.ReasonEpochInvalid), "status.epoch was set to a number that the operator has not given out: it is replaced")
	}
	describe(report, wanted, world)
	degrade(report, wanted, world, failed)
	swarm.Status.Phase = phase(swarm)
	if left := report.WriteDelay(); left > 0 {
		return kit.RequeueAfter(left, "CountsUnwritten"), nil
	}
	if err := report.Write(ctx); err != nil {
		return kit.Done(), fmt.Errorf("report on swarm %q: %w", swarm.Name, err)
	}
	return kit.Done(), nil
}

// describe sets the conditions for the progress of the swarm.
func describe(report *kit.Report[*v1alpha1.Swarm], wanted manifest.Swarm, world world) {
	swarm, desired := wanted.Swarm, total(wanted.Counts)
	active := int(swarm.Status.ActiveAgents)
	switch leave := len(leaving(wanted, world.agents)); {
	case swarm.Spec.Mode == v1alpha1.SwarmSuspended:
		report.Normal(v1alpha1.NotReady(swarm.Generation, v1alpha1.ReasonSuspended, "suspended: set mode to Running to go on"))
		report.Condition(v1alpha1.NotProgressing(swarm.Generation, v1alpha1.ReasonSuspended, ""))
	case active >= desired && leave > 0:
		report.Normal(v1alpha1.Ready(swarm.Generation, v1alpha1.ReasonAvailable, fmt.Sprintf("all %d agents are ready for work", desired)))
		report.Condition(v1alpha1.Progressing(swarm.Generation, v1alpha1.ReasonScaling, fmt.Sprintf("%d agents finish what they hold and leave", leave)))
	case active == desired:
		report.Normal(v1alpha1.Ready(swarm.Generation, v1alpha1.ReasonAvailable, fmt.Sprintf("all %d agents are ready for work", desired)))
		report.Condition(v1alpha1.NotProgressing(swarm.Generation, v1alpha1.ReasonSettled, ""))
	default:
		message := fmt.Sprintf("%d of %d agents are ready for work, %d have a ready pod", active, desired, swarm.Status.ReadyAgents)
		report.Normal(v1alpha1.NotReady(swarm.Generation, v1alpha1.ReasonInitializing, message))
		report.Condition(v1alpha1.Progressing(swarm.Generation, v1alpha1.ReasonInitializing, message))
	}
}

// degrade reports what does not work while the rest continues: a refused write, an unsupported feature, or agents that do not start.
func degrade(report *kit.Report[*v1alpha1.Swarm], swarm manifest.Swarm, world world, failed error) {
	unsupported, broken := unsupported(swarm), broken(world.agents)
	var taken nameTaken
	switch {
	case errors.As(failed, &taken):
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonNameTaken, failed.Error()))
	case failed != nil:
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonApplyFailed, failed.Error()))
	case unsupported != "":
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonNotSupported, unsupported))
	case broken != "":
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonAgentsFailing, broken))
	default:
		report.Condition(v1alpha1.NotDegraded(swarm.Generation))
	}
}

// unsupported returns what the API allows but this version, or this installation, does not support.
func unsupported(swarm manifest.Swarm) string {
	for _, kind := range swarm.Spec.Agents {
		if kind.Runtime != nil && kind.Runtime.HTTP != nil {
			return fmt.Sprintf("type %q: runtime.http is not supported by this version of the operator: use runtime.exec", kind.Type)
		}
	}
	if swarm.Spec.Spread != nil && swarm.Settings.SpreadOff != "" {
		return "spread is not supported by this operator: " + swarm.Settings.SpreadOff
	}
	return ""
}

// broken counts the agents that do not start, and quotes the first.
func broken(agents []v1alpha1.Agent) string {
	count, first := 0, ""
	for n := range agents {
		if agents[n].Status.Phase != v1alpha1.AgentFailed {
			continue
		}
		if ready := meta.FindStatusCondition(agents[n].Status.Conditions, v1alpha1.ConditionReady); count == 0 && ready != nil {
			first = agents[n].Name + ": " + ready.Message
		}
		count++
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d agents do not get up; %s", count, len(agents), first)
}

// count sets the numbers.
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
		status.Types = append(status.Types, v1alpha1.AgentTypeStatus{
			Type: kind.Type, Desired: int32(wanted.Counts[n]), Ready: ready, Message: shortLease(kind, wanted.Settings.ShortestLease),
		})
	}
	tasks := world.tasks
	if status.Tasks != nil || tasks != (v1alpha1.TaskCounts{}) {
		status.Tasks = &tasks
	}
	status.Epoch = world.epoch
}

// shortLease returns the consequence of a type's lease, if it is too short to survive a change of the operator's leader.
func shortLease(kind v1alpha1.AgentType, shortest time.Duration) string {
	lease := time.Duration(kind.LeaseSeconds) * time.Second
	if lease == 0 || lease >= shortest {
		return ""
	}
	return fmt.Sprintf("leaseSeconds is %d: work of this type begins anew when the operator changes its leader; from %d on it goes on",
		kind.LeaseSeconds, int(shortest.Seconds()))
}

// phase summarizes the conditions: a swarm that was once ready stays running, however degraded.
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

package swarm

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// statusWriteInterval is the minimum interval between writes of the numbers of tasks.
const statusWriteInterval = 10 * time.Second

// clearCounts clears the part of the status that can be delayed.
func clearCounts(swarm *v1alpha1.Swarm) { swarm.Status.Tasks, swarm.Status.Epoch = nil, 0 }

// report is the only status write of the controller, except for the last one.
func (r *reconciler) report(ctx context.Context, desired manifest.Swarm, snapshot snapshot, applyErr error) (kit.Result, error) {
	swarm := desired.Swarm
	report := r.status.Report(swarm, &swarm.Status.Conditions)
	setCounts(desired, snapshot)
	if snapshot.epochForged {
		report.Event(corev1.EventTypeWarning, string(v1alpha1.ReasonEpochInvalid),
			"status.epoch was set to a number that the operator has not given out: it is replaced")
	}
	setProgressConditions(report, desired, snapshot)
	setDegradedCondition(report, desired, snapshot, applyErr)
	swarm.Status.Phase = phase(swarm)
	if left := report.WriteDelay(); left > 0 {
		return kit.RequeueAfter(left, "CountsUnwritten"), nil
	}
	if err := report.Write(ctx); err != nil {
		return kit.Done(), fmt.Errorf("report on swarm %q: %w", swarm.Name, err)
	}
	return kit.Done(), nil
}

// setProgressConditions sets the conditions for the progress of the swarm.
func setProgressConditions(report *kit.Report[*v1alpha1.Swarm], wanted manifest.Swarm, snapshot snapshot) {
	swarm, desired := wanted.Swarm, total(wanted.Counts)
	active := int(swarm.Status.ActiveAgents)
	switch leavingCount := len(leavingAgents(wanted, snapshot.agents)); {
	case swarm.Spec.Mode == v1alpha1.SwarmSuspended:
		report.Normal(v1alpha1.NotReady(swarm.Generation, v1alpha1.ReasonSuspended, "suspended: set mode to Running to go on"))
		report.Condition(v1alpha1.NotProgressing(swarm.Generation, v1alpha1.ReasonSuspended, ""))
	case active >= desired && leavingCount > 0:
		report.Normal(v1alpha1.Ready(swarm.Generation, v1alpha1.ReasonAvailable, fmt.Sprintf("all %d agents are ready for work", desired)))
		report.Condition(v1alpha1.Progressing(swarm.Generation, v1alpha1.ReasonScaling,
			fmt.Sprintf("%d agents finish what they hold and leave", leavingCount)))
	case active == desired:
		report.Normal(v1alpha1.Ready(swarm.Generation, v1alpha1.ReasonAvailable, fmt.Sprintf("all %d agents are ready for work", desired)))
		report.Condition(v1alpha1.NotProgressing(swarm.Generation, v1alpha1.ReasonSettled, ""))
	default:
		message := fmt.Sprintf("%d of %d agents are ready for work, %d have a ready pod", active, desired, swarm.Status.ReadyAgents)
		report.Normal(v1alpha1.NotReady(swarm.Generation, v1alpha1.ReasonInitializing, message))
		report.Condition(v1alpha1.Progressing(swarm.Generation, v1alpha1.ReasonInitializing, message))
	}
}

// setDegradedCondition reports what does not work while the rest continues: a refused write, an unsupported feature, or agents that do not
// start.
func setDegradedCondition(report *kit.Report[*v1alpha1.Swarm], swarm manifest.Swarm, snapshot snapshot, applyErr error) {
	unsupported, failing := unsupportedFeature(swarm), failingAgents(snapshot.agents)
	var taken nameTakenError
	switch {
	case errors.As(applyErr, &taken):
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonNameTaken, applyErr.Error()))
	case applyErr != nil:
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonApplyFailed, applyErr.Error()))
	case unsupported != "":
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonNotSupported, unsupported))
	case failing != "":
		report.Warning(v1alpha1.Degraded(swarm.Generation, v1alpha1.ReasonAgentsFailing, failing))
	default:
		report.Condition(v1alpha1.NotDegraded(swarm.Generation))
	}
}

// unsupportedFeature returns what the API allows but this version, or this installation, does not support.
func unsupportedFeature(swarm manifest.Swarm) string {
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

// failingAgents counts the agents that do not start, and quotes the first.
func failingAgents(agents []v1alpha1.Agent) string {
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
	return fmt.Sprintf("%d of %d agents do not start; %s", count, len(agents), first)
}

// setCounts sets the numbers.
func setCounts(desired manifest.Swarm, snapshot snapshot) {
	status := &desired.Status
	status.ObservedGeneration = desired.Generation
	status.Selector = v1alpha1.LabelSwarm + "=" + desired.Name
	status.Replicas, status.ActiveAgents, status.ReadyAgents = int32(len(snapshot.agents)), 0, 0
	for n := range snapshot.agents {
		if meta.IsStatusConditionTrue(snapshot.agents[n].Status.Conditions, v1alpha1.ConditionReady) {
			status.ActiveAgents++
		}
	}
	status.Types = status.Types[:0]
	for n, kind := range desired.Spec.Agents {
		ready := snapshot.readyPods(desired.Workload(kind.Type))
		status.ReadyAgents += ready
		status.Types = append(status.Types, v1alpha1.AgentTypeStatus{
			Type: kind.Type, Desired: int32(desired.Counts[n]), Ready: ready, Message: shortLeaseWarning(kind, desired.Settings.ShortestLease),
		})
	}
	tasks := snapshot.taskCounts
	if status.Tasks != nil || tasks != (v1alpha1.TaskCounts{}) {
		status.Tasks = &tasks
	}
	status.Epoch = snapshot.epoch
}

// shortLeaseWarning returns the consequence of a type's lease, if it is too short to survive a change of the operator's leader.
func shortLeaseWarning(kind v1alpha1.AgentType, shortest time.Duration) string {
	lease := time.Duration(kind.LeaseSeconds) * time.Second
	if lease == 0 || lease >= shortest {
		return ""
	}
	return fmt.Sprintf("leaseSeconds is %d: work of this type restarts when the leader of the operator changes; with %d or more it continues",
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

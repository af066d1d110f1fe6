package workerpool

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// convergenceGrace is the time before a handover is shown: most end sooner, and then cost one write.
	convergenceGrace = time.Second
	// statusWriteInterval is the minimum interval between writes of mere progress.
	statusWriteInterval = 3 * time.Second
	// maxPendingEvents limits the pending events.
	maxPendingEvents = 20
	// evictionRetryDelay is the delay before an eviction refused by a budget is requested again.
	evictionRetryDelay = 5 * time.Second
)

// report is the only status write. A handover that ends soon is not shown.
func (r *reconciler) report(ctx context.Context, pool *v1alpha1.WorkerPool, next plan.Plan, state *localState) (kit.Result, error) {
	state.addEvents(pool, next)
	switch {
	case next.AwaitingFirstPoll:
		return kit.RequeueAfter(convergenceGrace, "Asking"), nil // the answer triggers a reconcile sooner
	case len(next.ConfigMaps) > 0:
		return kit.Requeue("Published"), nil // the report depends on who has loaded it
	}
	if remaining := state.remainingGrace(pool, next); remaining > 0 {
		return kit.RequeueAfter(remaining, "Converging"), nil
	}
	report := r.status.Report(pool, &pool.Status.Conditions)
	for _, event := range state.events {
		kind := corev1.EventTypeNormal
		if event.warning {
			kind = corev1.EventTypeWarning
		}
		report.EventAbout(event.regarding, kind, event.reason, event.message)
	}
	setStatusFields(pool, next)
	setConditions(report, pool, next)
	if remaining := report.WriteDelay(); remaining > 0 {
		return kit.RequeueAfter(remaining, "Counting"), nil
	}
	if err := report.Write(ctx); err != nil {
		return kit.Done(), fmt.Errorf("report on pool %q: %w", pool.Name, err)
	}
	state.events = nil
	return requeueResult(next), nil
}

// clearProgress updates what can be delayed: how many workers have loaded their lists.
func clearProgress(pool *v1alpha1.WorkerPool) {
	pool.Status.Workers = nil
	for n := range pool.Status.Conditions {
		if pool.Status.Conditions[n].Type == v1alpha1.ConditionConverged {
			pool.Status.Conditions[n].Message = ""
		}
	}
}

// addEvents keeps events until they are reported.
func (s *localState) addEvents(pool *v1alpha1.WorkerPool, next plan.Plan) {
	if next.RevisionMessage != "" {
		s.events = append(s.events, pendingEvent{reason: "Planned", message: next.RevisionMessage, regarding: &corev1.ObjectReference{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision", Namespace: pool.Namespace,
			Name: plan.RevisionName(pool, next.RevisionNumber),
		}})
	}
	for _, e := range next.Evicted {
		s.events = append(s.events, pendingEvent{reason: "Replacing", message: fmt.Sprintf("pod %s: %s", e.Pod.Name, e.Reason),
			regarding: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: pool.Namespace, Name: e.Pod.Name, UID: e.Pod.UID,
			}})
	}
	s.events = s.events[max(0, len(s.events)-maxPendingEvents):]
}

// requeueResult returns when to reconcile again.
func requeueResult(next plan.Plan) kit.Result {
	switch {
	case len(next.Evictions) > 0:
		return kit.RequeueAfter(evictionRetryDelay, "Replacing")
	case next.RequeueAfter > 0:
		return kit.RequeueAfter(next.RequeueAfter, "Waiting")
	}
	return kit.Done()
}

// remainingGrace returns how long the status of a converged pool may lag behind.
func (s *localState) remainingGrace(pool *v1alpha1.WorkerPool, next plan.Plan) time.Duration {
	if next.Converged || next.Blocker != nil || next.Problem != nil || next.Paused || pool.Status.ObservedGeneration != pool.Generation {
		s.convergingSince = time.Time{}
		return 0
	}
	if s.convergingSince.IsZero() {
		s.convergingSince = time.Now()
	}
	return convergenceGrace - time.Since(s.convergingSince)
}

// setStatusFields sets everything but the conditions.
func setStatusFields(pool *v1alpha1.WorkerPool, next plan.Plan) {
	status := &pool.Status
	status.ObservedGeneration, status.Jobs, status.Source = pool.Generation, int32(next.Jobs), next.Sources
	if next.Blocker != nil {
		return
	}
	status.Size, status.ExpectedSize, status.Selector = int32(next.ReadyWorkers), int32(next.ExpectedWorkers), next.Selector
	status.Version, status.Revision, status.Workers = next.Version, next.RevisionNumber, next.Workers
	if next.Converged {
		status.ConvergedRevision = next.RevisionNumber
	}
	status.Unassigned = nil
	for _, job := range next.Unassigned[:min(len(next.Unassigned), plan.MaxListed)] {
		status.Unassigned = append(status.Unassigned, job.Job)
	}
}

// setConditions sets the conditions and the phase.
func setConditions(report *kit.Report[*v1alpha1.WorkerPool], pool *v1alpha1.WorkerPool, next plan.Plan) {
	generation, status := pool.Generation, &pool.Status
	mainProblem := next.MainProblem()
	if mainProblem != nil {
		report.Warning(v1alpha1.Degraded(generation, mainProblem.Reason, mainProblem.Message))
	} else {
		report.Condition(v1alpha1.NotDegraded(generation))
	}
	switch {
	case next.Blocker != nil:
		report.Condition(v1alpha1.NotReady(generation, next.Blocker.Reason, next.Blocker.Message))
		report.Condition(v1alpha1.Converging(generation, next.Blocker.Reason, next.Blocker.Message))
		status.Phase = v1alpha1.PoolPending
		return
	case next.Converged:
		report.Normal(v1alpha1.Converged(generation, "every job that has a worker is where it should be"))
		status.Phase = v1alpha1.PoolConverged
	default:
		reason, message := next.ConvergingReason()
		report.Condition(v1alpha1.Converging(generation, reason, message))
		status.Phase = v1alpha1.PoolConverging
		if next.RevisionNumber == 0 {
			status.Phase = v1alpha1.PoolPending
		}
	}
	setReadyCondition(report, pool, next, mainProblem)
}

// setReadyCondition sets whether the jobs have workers. After a pool has converged once, a handover does not change that.
func setReadyCondition(report *kit.Report[*v1alpha1.WorkerPool], pool *v1alpha1.WorkerPool, next plan.Plan, mainProblem *plan.Problem) {
	generation, status := pool.Generation, &pool.Status
	switch reason, message := next.ConvergingReason(); {
	case mainProblem != nil:
		status.Phase = v1alpha1.PoolDegraded
		report.Condition(v1alpha1.NotReady(generation, mainProblem.Reason, mainProblem.Message)) // Degraded has the same message
	case next.ExpectedWorkers == 0 && next.Jobs > 0:
		report.Normal(v1alpha1.NotReady(generation, v1alpha1.ReasonNoWorkers,
			fmt.Sprintf("%d jobs wait: the workload is scaled to 0", next.Jobs)))
	case status.ConvergedRevision == 0 && !next.Converged:
		report.Normal(v1alpha1.NotReady(generation, reason, message))
	default:
		report.Normal(v1alpha1.Ready(generation, v1alpha1.ReasonAvailable, "every job has a worker"))
	}
}

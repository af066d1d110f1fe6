package task

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// report is the only status write. A successful task emits no events: they would cost more than the task.
func (r *reconciler) report(ctx context.Context, task *v1alpha1.Task, plan Plan) error {
	report := r.status.Report(task, &task.Status.Conditions)
	conditions := task.Status.Conditions
	task.Status = plan.Status
	task.Status.Conditions = conditions
	if task.Status.Phase == "" {
		return nil
	}
	task.Status.ObservedGeneration = task.Generation
	for _, condition := range conditionsOf(task) {
		report.Condition(condition)
	}
	if plan.Event != "" {
		report.Event(plan.Event, task.Status.Reason, task.Status.Message)
	}
	if err := report.Write(ctx); err != nil {
		return fmt.Errorf("report on task %q: %w", task.Name, err)
	}
	return nil
}

// conditionsOf returns the phase as conditions, for kubectl wait.
func conditionsOf(task *v1alpha1.Task) []metav1.Condition {
	generation, reason, message := task.Generation, v1alpha1.Reason(task.Status.Reason), task.Status.Message
	switch task.Status.Phase {
	case v1alpha1.TaskCompleted:
		return []metav1.Condition{v1alpha1.Ready(generation, reason, message), v1alpha1.NotProgressing(generation, reason, message)}
	case v1alpha1.TaskFailed, v1alpha1.TaskCancelled:
		return []metav1.Condition{v1alpha1.NotReady(generation, reason, message), v1alpha1.NotProgressing(generation, reason, message)}
	case v1alpha1.TaskRunning:
		return []metav1.Condition{v1alpha1.NotReady(generation, v1alpha1.ReasonRunning, ""),
			v1alpha1.Progressing(generation, v1alpha1.ReasonRunning, "")}
	}
	return []metav1.Condition{v1alpha1.NotReady(generation, reason, message), v1alpha1.Progressing(generation, reason, message)}
}

// expiryResult schedules the reconcile that deletes a finished task, with a lower priority than tasks that have something to store.
func expiryResult(task *v1alpha1.Task, snapshot snapshot, now time.Time) kit.Result {
	remaining, expires := timeLeft(task, snapshot.swarm, now)
	switch {
	case !expires:
		return kit.Done()
	case snapshot.clock.skewed:
		return kit.RequeueAfter(clockRetryInterval, clockSkewed).LowPriority()
	}
	return kit.RequeueAfter(max(remaining, 0), "Expires").LowPriority()
}

// deleteExpired deletes a finished task when its time is over.
func (r *reconciler) deleteExpired(ctx context.Context, task *v1alpha1.Task, snapshot snapshot, now time.Time) (kit.Result, error) {
	if left, expires := timeLeft(task, snapshot.swarm, now); !expires || snapshot.clock.skewed || left > 0 {
		return expiryResult(task, snapshot, now), nil
	}
	uid := task.UID
	err := r.client.Delete(ctx, task, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return kit.Done(), fmt.Errorf("delete finished task %q: %w", task.Name, err)
	}
	return kit.Done(), nil
}

// timeLeft returns how long a finished task is kept: as set in the task, otherwise in its swarm.
func timeLeft(task *v1alpha1.Task, swarm *v1alpha1.Swarm, now time.Time) (left time.Duration, expires bool) {
	ttl := task.Spec.TTLSecondsAfterFinished
	if ttl == nil && swarm != nil {
		ttl = swarm.Spec.Tasks.TTLSecondsAfterFinished
	}
	if ttl == nil || task.Status.CompletionTime == nil {
		return 0, false
	}
	return task.Status.CompletionTime.Add(time.Duration(*ttl) * time.Second).Sub(now), true
}

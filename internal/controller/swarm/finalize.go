package swarm

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// drainTimeout limits how long a deleted swarm waits for running attempts. An agent that stops as requested needs its grace period; its
// pod is deleted with the swarm.
const drainTimeout = 10 * time.Minute

// A Clock knows how far the clock of this process is ahead of the API server's, and whether the difference is small enough to rely on it.
type Clock interface {
	Skew() (ahead time.Duration, reliable bool)
}

// A reconcile deletes at most deleteBatchSize tasks, one request after the other, and continues after deleteBatchPause. Deleting all of
// them at once could exceed the limit of the liveness probe, and would block a worker that other swarms need.
const deleteBatchSize, deleteBatchPause = 100, time.Second

// finalize ends a deleted swarm: no new work is assigned, its tasks are deleted, and their running attempts are stopped. When no agent
// holds anything any more, the swarm is deleted with everything that it owns.
func (r *reconciler) finalize(ctx context.Context, swarm *v1alpha1.Swarm) (kit.Cleanup, error) {
	key := client.ObjectKeyFromObject(swarm)
	r.dispatcher.SetSwarm(key,
		dispatch.SwarmRules{Halt: &dispatch.Wait{Reason: v1alpha1.ReasonTerminating, Message: "the swarm is being deleted"}})
	running, countKnown := r.dispatcher.CountAttempts(key, "")
	if !countKnown {
		return kit.Pending("AgentsUnheard"), nil
	}
	tasks, err := tasksOf(ctx, r.client, swarm)
	if err != nil {
		return kit.Cleanup{}, err
	}
	if len(tasks) == 0 && running == 0 {
		return kit.Cleaned(), nil
	}
	if err := r.reportTerminating(ctx, swarm, len(tasks), running); err != nil {
		return kit.Cleanup{}, err
	}
	more, err := r.deleteTasks(ctx, tasks)
	switch {
	case err != nil:
		return kit.Cleanup{}, err
	case more:
		return kit.PendingFor(deleteBatchPause, "DeletingTasks"), nil
	}
	hasFinalizers := slices.ContainsFunc(tasks, func(task v1alpha1.Task) bool {
		return len(task.Finalizers) > 0
	}) // held by another controller
	if !hasFinalizers && (running == 0 || r.isOverdue(swarm, time.Now())) {
		return kit.Cleaned(), nil
	}
	return kit.Pending("Draining"), nil
}

// isOverdue reports whether a deleted swarm has certainly waited long enough for running attempts. The deletion time is the API server's.
func (r *reconciler) isOverdue(swarm *v1alpha1.Swarm, now time.Time) bool {
	if r.clock != nil {
		if _, reliable := r.clock.Skew(); !reliable {
			return false
		}
	}
	return now.Sub(swarm.DeletionTimestamp.Time) > drainTimeout
}

// deleteTasks deletes a batch of tasks, and reports whether any are left.
func (r *reconciler) deleteTasks(ctx context.Context, tasks []v1alpha1.Task) (more bool, err error) {
	deleted := 0
	for n := range tasks {
		if !tasks[n].DeletionTimestamp.IsZero() {
			continue
		}
		if deleted == deleteBatchSize {
			return true, nil
		}
		if err := r.deleteTask(ctx, &tasks[n]); err != nil {
			return true, err
		}
		deleted++
	}
	return false, nil
}

// reportTerminating reports what the deletion waits for. The numbers are those at its beginning: counting down would only cost writes.
func (r *reconciler) reportTerminating(ctx context.Context, swarm *v1alpha1.Swarm, tasks, running int) error {
	if swarm.Status.Phase == v1alpha1.SwarmPhaseTerminating {
		return nil
	}
	report := r.status.Report(swarm, &swarm.Status.Conditions)
	swarm.Status.Phase = v1alpha1.SwarmPhaseTerminating
	message := fmt.Sprintf("being deleted: its %d tasks are deleted, %d running attempts are stopped first", tasks, running)
	report.Normal(v1alpha1.NotReady(swarm.Generation, v1alpha1.ReasonTerminating, message))
	report.Condition(v1alpha1.Progressing(swarm.Generation, v1alpha1.ReasonTerminating, message))
	return report.Write(ctx)
}

// deleteTask deletes a task unless it was replaced since it was read. The task is from the cache and must not be modified.
func (r *reconciler) deleteTask(ctx context.Context, task *v1alpha1.Task) error {
	object := &v1alpha1.Task{}
	object.Namespace, object.Name = task.Namespace, task.Name
	err := r.client.Delete(ctx, object, client.Preconditions{UID: new(task.UID)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete task %q: %w", task.Name, err)
	}
	return nil
}

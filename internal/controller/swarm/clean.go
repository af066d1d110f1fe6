package swarm

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// drainDeadline is how long a swarm that is deleted waits for what runs. An agent that does as it is told needs its grace period; its pod is deleted
// with the swarm.
const drainDeadline = 10 * time.Minute

// A Clock knows how far the clock of this process is ahead of the API server's, and whether that is little enough to act by it.
type Clock interface {
	Skew() (ahead time.Duration, reliable bool)
}

// At most cleanBatch tasks are deleted in a reconcile, one request after the other, and the next ones after cleanPause. A reconcile that deleted
// them all could take longer than the liveness probe lets it, and would keep a worker from other swarms.
const cleanBatch, cleanPause = 100, time.Second

// clean ends a swarm that is deleted: nothing new is given out, its tasks go, what runs of them is stopped, and when no agent holds
// anything any more the swarm may go, and with it everything that it owns.
func (r *reconciler) clean(ctx context.Context, swarm *v1alpha1.Swarm) (kit.Cleanup, error) {
	key := client.ObjectKeyFromObject(swarm)
	r.board.Govern(key, dispatch.Rules{Halt: &dispatch.Wait{Reason: v1alpha1.ReasonTerminating, Message: "the swarm is being deleted"}})
	running, known := r.board.Busy(key, "")
	if !known {
		return kit.Pending("AgentsUnheard"), nil
	}
	tasks, err := tasksOf(ctx, r.client, swarm)
	if err != nil {
		return kit.Cleanup{}, err
	}
	if len(tasks) == 0 && running == 0 {
		return kit.Cleaned(), nil
	}
	if err := r.terminate(ctx, swarm, len(tasks), running); err != nil {
		return kit.Cleanup{}, err
	}
	left, err := r.removeSome(ctx, tasks)
	switch {
	case err != nil:
		return kit.Cleanup{}, err
	case left:
		return kit.PendingFor(cleanPause, "DeletingTasks"), nil
	}
	held := slices.ContainsFunc(tasks, func(task v1alpha1.Task) bool { return len(task.Finalizers) > 0 }) // another controller has to let it go
	if !held && (running == 0 || r.isOverdue(swarm, time.Now())) {
		return kit.Cleaned(), nil
	}
	return kit.Pending("Draining"), nil
}

// isOverdue reports whether a swarm that is deleted has certainly waited long enough for what runs. The time of its deletion is the API server's.
func (r *reconciler) isOverdue(swarm *v1alpha1.Swarm, now time.Time) bool {
	if r.clock != nil {
		if _, reliable := r.clock.Skew(); !reliable {
			return false
		}
	}
	return now.Sub(swarm.DeletionTimestamp.Time) > drainDeadline
}

// removeSome deletes a batch of tasks, and reports whether others are left.
func (r *reconciler) removeSome(ctx context.Context, tasks []v1alpha1.Task) (left bool, err error) {
	removed := 0
	for n := range tasks {
		if !tasks[n].DeletionTimestamp.IsZero() {
			continue
		}
		if removed == cleanBatch {
			return true, nil
		}
		if err := r.remove(ctx, &tasks[n]); err != nil {
			return true, err
		}
		removed++
	}
	return false, nil
}

// terminate shows what the deletion waits for. The numbers are those of its beginning: counting down would only cost writes.
func (r *reconciler) terminate(ctx context.Context, swarm *v1alpha1.Swarm, tasks, running int) error {
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

// remove deletes a task, if it is still the one that was looked at. The task is of the cache and must not be changed.
func (r *reconciler) remove(ctx context.Context, task *v1alpha1.Task) error {
	doomed := &v1alpha1.Task{}
	doomed.Namespace, doomed.Name = task.Namespace, task.Name
	err := r.client.Delete(ctx, doomed, client.Preconditions{UID: new(task.UID)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete task %q: %w", task.Name, err)
	}
	return nil
}

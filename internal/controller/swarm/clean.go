package swarm

import (
	"context"
	"fmt"
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
	held := false
	for n := range tasks {
		if err := r.remove(ctx, tasks[n].DeepCopy()); err != nil {
			return kit.Cleanup{}, err
		}
		held = held || len(tasks[n].Finalizers) > 0 // somebody else has to let it go
	}
	if !held && (running == 0 || time.Since(swarm.DeletionTimestamp.Time) > drainDeadline) {
		return kit.Cleaned(), nil
	}
	return kit.Pending("Draining"), nil
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

// remove deletes a task, if it is still the one that was looked at.
func (r *reconciler) remove(ctx context.Context, task *v1alpha1.Task) error {
	if !task.DeletionTimestamp.IsZero() {
		return nil
	}
	uid := task.UID
	err := r.client.Delete(ctx, task, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete task %q: %w", task.Name, err)
	}
	return nil
}

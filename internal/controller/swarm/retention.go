package swarm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// defaultFinishedLimit is the default of the API, for a Swarm stored before the field existed.
	defaultFinishedLimit = 1000
	// The maximum number of finished tasks of a swarm deleted at a time, one request after the other, and the pause before: deleting is
	// never so urgent that a result should wait for it.
	retentionBatchSize, retentionPause = 100, time.Second
)

// retentionReconciler keeps the number of finished tasks of each swarm within spec.tasks.finishedLimit. It is a separate controller with
// one worker, so that it does not compete with those that store results.
type retentionReconciler struct {
	client  client.Client
	trigger *kit.Trigger
}

func addRetention(operator *kit.Operator, options Options) error {
	r := &retentionReconciler{client: operator.GetClient(), trigger: &kit.Trigger{}}
	return kit.New[*v1alpha1.Swarm](operator, "retention").
		Secondary().
		Watches(&v1alpha1.Task{}, r.triggerSwarm, taskFinishedPredicate).
		TriggeredBy(r.trigger).
		Namespaces(options.Scope).
		ResyncPeriod(options.Resync).
		Build(r)
}

// taskFinishedPredicate passes only the change by which a task becomes final.
var taskFinishedPredicate = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(change event.UpdateEvent) bool {
		return !isFinal(change.ObjectOld) && isFinal(change.ObjectNew)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func isFinal(object client.Object) bool { return object.(*v1alpha1.Task).Status.Phase.Final() }

// triggerSwarm schedules the swarm of a task after a delay, in which other tasks may finish.
func (r *retentionReconciler) triggerSwarm(_ context.Context, task client.Object) []types.NamespacedName {
	r.trigger.After(types.NamespacedName{Namespace: task.GetNamespace(), Name: task.(*v1alpha1.Task).Spec.SwarmRef.Name}, retentionPause)
	return nil
}

// Reconcile deletes some of the finished tasks above the limit.
func (r *retentionReconciler) Reconcile(ctx context.Context, swarm *v1alpha1.Swarm) (kit.Result, error) {
	tasks, err := tasksOf(ctx, r.client, swarm)
	if err != nil {
		return kit.Done(), err
	}
	surplus := surplusTasks(tasks, finishedLimit(swarm))
	for _, task := range surplus[:min(len(surplus), retentionBatchSize)] {
		if err := r.deleteTask(ctx, task); err != nil {
			return kit.Done(), err
		}
	}
	if len(surplus) > retentionBatchSize {
		return kit.RequeueAfter(retentionPause, "FinishedLimit").LowPriority(), nil
	}
	return kit.Done(), nil
}

func finishedLimit(swarm *v1alpha1.Swarm) int {
	if limit := swarm.Spec.Tasks.FinishedLimit; limit != nil {
		return int(*limit)
	}
	return defaultFinishedLimit
}

// surplusTasks returns the finished tasks above the limit, oldest first. Those that must not be deleted do not count.
func surplusTasks(tasks []v1alpha1.Task, limit int) []*v1alpha1.Task {
	var finished []*v1alpha1.Task
	for n := range tasks {
		if isDisposable(&tasks[n]) {
			finished = append(finished, &tasks[n])
		}
	}
	if len(finished) <= limit {
		return nil
	}
	slices.SortFunc(finished, func(x, y *v1alpha1.Task) int {
		return cmp.Or(finishedAt(x).Compare(finishedAt(y)), cmp.Compare(x.Name, y.Name))
	})
	return finished[:len(finished)-limit]
}

// isDisposable reports whether a task is stored as finished, and nothing requires it to be kept.
func isDisposable(task *v1alpha1.Task) bool {
	return task.Status.Phase.Final() && len(task.Finalizers) == 0 && task.DeletionTimestamp.IsZero() &&
		task.Annotations[v1alpha1.AnnotationPaused] != "true"
}

func finishedAt(task *v1alpha1.Task) time.Time {
	if task.Status.CompletionTime == nil {
		return task.CreationTimestamp.Time
	}
	return task.Status.CompletionTime.Time
}

// deleteTask deletes a task unless it has changed since it was read. The task is from the cache and must not be modified.
func (r *retentionReconciler) deleteTask(ctx context.Context, task *v1alpha1.Task) error {
	object := &v1alpha1.Task{}
	object.Namespace, object.Name = task.Namespace, task.Name
	err := r.client.Delete(ctx, object, client.Preconditions{UID: new(task.UID), ResourceVersion: new(task.ResourceVersion)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete finished task %q: %w", task.Name, err)
	}
	return nil
}

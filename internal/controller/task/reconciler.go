// Package task runs Tasks to completion: it passes the requests of users to dispatch, writes the state known to dispatch, and lets dispatch
// continue once that is stored.
//
// It promises that a final phase is written once and never changes, that a result is stored before the agent may forget it, and that
// waiting costs no writes: the reason for waiting is written once. It never communicates with agents.
package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is the controller's name in logs, metrics and events.
const name = "task"

// Options are the configuration of this controller.
type Options struct {
	Dispatcher *dispatch.Dispatcher
	Trigger    *kit.Trigger // with which the dispatcher requests a reconcile
	Scope      *kit.Scope
	Workers    int
	Clock      Clock // nil if the clock of this process is always right
}

type reconciler struct {
	client       client.Client
	apiReader    client.Reader // past the cache
	status       *kit.Status[*v1alpha1.Task]
	dispatcher   *dispatch.Dispatcher
	clock        Clock
	rejections   statusRejections
	objectChecks objectCheckCache
}

// Add adds the Task controller to the operator.
func Add(operator *kit.Operator, options Options) error {
	r := &reconciler{
		client: operator.GetClient(), apiReader: operator.GetAPIReader(), status: kit.NewStatus[*v1alpha1.Task](operator, name),
		dispatcher: options.Dispatcher, clock: options.Clock,
	}
	return kit.New[*v1alpha1.Task](operator, name).
		TriggeredBy(options.Trigger).
		OnDeleted(r.handleDeleted).
		Namespaces(options.Scope).
		Concurrency(options.Workers).
		Build(r)
}

// handleDeleted drops a deleted task. If agents report about it, its absence from the cache is no proof: the cache may not have the task
// yet, and a result that is acknowledged now would be lost.
func (r *reconciler) handleDeleted(ctx context.Context, name types.NamespacedName) error {
	if r.dispatcher.HasOrphans(name) {
		switch err := r.apiReader.Get(ctx, name, &v1alpha1.Task{}); {
		case err == nil:
			return nil // the watch will deliver it
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("look for task %q past the cache: %w", name.Name, err)
		}
	}
	r.rejections.forget(name)
	r.dispatcher.Forget(name)
	return nil
}

// Reconcile advances a Task by one step.
func (r *reconciler) Reconcile(ctx context.Context, task *v1alpha1.Task) (kit.Result, error) {
	now := time.Now()
	snapshot, err := r.observe(ctx, task, now)
	switch {
	case err != nil:
		return kit.Done(), err
	case snapshot.view.Stale: // the missing change is our own, and does not trigger a reconcile
		return kit.Requeue("CacheBehind"), nil
	case !snapshot.view.DeferredUntil.IsZero():
		return kit.RequeueAfter(snapshot.view.DeferredUntil.Sub(now), "AgentsUnheard"), nil
	}
	if task.Status.Phase.Final() {
		return r.deleteExpired(ctx, task, snapshot, now)
	}
	plan := r.plan(task, snapshot, now)
	err = r.report(ctx, task, plan)
	r.rejections.record(task, snapshot.view.End, err)
	if err != nil {
		return kit.Done(), err
	}
	switch payload, err := r.payloadToSend(ctx, task, snapshot); {
	case errors.Is(err, errPayloadGone):
		return kit.Requeue("CacheBehind"), nil
	case err != nil:
		return kit.Done(), err
	default:
		r.dispatcher.MarkStored(task, payload)
	}
	if task.Status.Phase.Final() {
		return expiryResult(task, snapshot, now), nil // our own status write does not trigger a reconcile
	}
	return plan.result(now), nil
}

// plan decides the next status of a task. It drops the details of an end that the API server keeps refusing.
func (r *reconciler) plan(task *v1alpha1.Task, snapshot snapshot, now time.Time) Plan {
	if r.rejections.isPermanent(task, snapshot.view.End) {
		return planRejected(task, *snapshot.view.End, snapshot.clock, now)
	}
	return plan(task, snapshot, now)
}

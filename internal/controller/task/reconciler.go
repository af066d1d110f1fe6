// Package task brings Tasks to their end: it tells dispatch what users want, writes what dispatch knows, and lets dispatch go on
// once that is stored.
//
// It promises that a final phase is written once and never changes, that a result is stored before the agent may forget it, and that
// waiting costs no writes: why a task waits is written when it becomes known, not again. It never talks to agents.
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
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is what logs, metrics and events call the controller.
const name = "task"

// Options are what the operator's configuration says about this controller.
type Options struct {
	Board   *dispatch.Board
	Signal  *kit.Signal // by which the board asks for a reconcile
	Scope   *kit.Scope
	Workers int
	Clock   Clock // nil: the clock of this process is right
}

type reconciler struct {
	client   client.Client
	live     client.Reader // past the cache
	status   *kit.Status[*v1alpha1.Task]
	board    *dispatch.Board
	clock    Clock
	refusals refusals
	verdicts verdicts
}

// Add gives the operator the controller of Tasks.
func Add(operator *kit.Operator, options Options) error {
	r := &reconciler{
		client: operator.GetClient(), live: operator.GetAPIReader(), status: kit.NewStatus[*v1alpha1.Task](operator, name),
		board: options.Board, clock: options.Clock,
	}
	return kit.New[*v1alpha1.Task](operator, name).
		Signals(options.Signal).
		Gone(r.forget).
		Namespaces(options.Scope).
		Concurrency(options.Workers).
		Build(r)
}

// forget lets go of a task that is gone. Of one that agents report about, the cache is no proof: it may not have heard of the task yet, and a
// result that is acknowledged now would be lost.
func (r *reconciler) forget(ctx context.Context, name types.NamespacedName) error {
	if r.board.Reported(name) {
		switch err := r.live.Get(ctx, name, &v1alpha1.Task{}); {
		case err == nil:
			return nil // it comes with the watch
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("look for task %q past the cache: %w", name.Name, err)
		}
	}
	r.refusals.forget(name)
	r.board.Forget(name)
	return nil
}

// Reconcile brings a Task one step further.
func (r *reconciler) Reconcile(ctx context.Context, task *v1alpha1.Task) (kit.Result, error) {
	now := time.Now()
	world, err := r.observe(ctx, task, now)
	switch {
	case err != nil:
		return kit.Done(), err
	case world.view.Stale: // the change that the cache has yet to hear of is our own, and wakes nobody
		return kit.Requeue("CacheBehind"), nil
	case !world.view.HeldBack.IsZero():
		return kit.RequeueAfter(world.view.HeldBack.Sub(now), "AgentsUnheard"), nil
	}
	if task.Status.Phase.Final() {
		return r.expire(ctx, task, world, now)
	}
	plan := r.plan(task, world, now)
	err = r.report(ctx, task, plan)
	r.refusals.note(task, world.view.Ended, err)
	if err != nil {
		return kit.Done(), err
	}
	switch payload, err := r.payloadToSend(ctx, task, world); {
	case errors.Is(err, errPayloadGone):
		return kit.Requeue("CacheBehind"), nil
	case err != nil:
		return kit.Done(), err
	default:
		r.board.Settle(task, payload)
	}
	if task.Status.Phase.Final() {
		return expiry(task, world, now), nil // our own write of the status does not bring the task back here
	}
	return plan.result(now), nil
}

// plan decides what has become of a task. It gives up the details of an end that the API server keeps refusing.
func (r *reconciler) plan(task *v1alpha1.Task, world world, now time.Time) Plan {
	if r.refusals.final(task, world.view.Ended) {
		return planRefused(task, *world.view.Ended, world.clock, now)
	}
	return plan(task, world, now)
}

// Package swarm keeps what a Swarm is made of: a StatefulSet for each agent type, a Service, a ConfigMap and the Agents.
//
// It promises that all of it follows from the Swarm alone, under names that would be the same tomorrow; that it is written only
// where it differs; and that what is no longer wanted is deleted only if it is still the object that was looked at. It never
// decides anything in Reconcile: plan does, as a value.
package swarm

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/internal/ondemand"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is what logs, metrics, events and field managers call the controller.
const name = "swarm"

// Options are what the operator's configuration says about this controller.
type Options struct {
	// Settings is asked at each reconcile, because the CA changes while the operator runs.
	Settings func(context.Context) manifest.Settings
	Board    *dispatch.Board
	Signal   *kit.Signal // by which the board asks for a reconcile
	Scope    *kit.Scope
	Resync   time.Duration
	Workers  int
	Clock    Clock // nil: the clock of this process is right
}

// untrusted is how long a swarm waits for the CA at most. The watch on its Secret is faster; this is for when that was missed.
const untrusted = 5 * time.Second

// refusedAgain is how soon a swarm whose objects were refused is tried again. A change of the Swarm comes sooner; this is for the object in its way, and
// for an API server that has learned a new field.
const refusedAgain = time.Minute

type reconciler struct {
	client   client.Client
	live     client.Reader // past the cache
	status   *kit.Status[*v1alpha1.Swarm]
	settings func(context.Context) manifest.Settings
	board    *dispatch.Board
	clock    Clock
}

// Add gives the operator the controller of Swarms. Of Secrets its cache must hold no more than the one with the link's CA: every
// swarm is told when that changes.
func Add(ctx context.Context, operator *kit.Operator, options Options) error {
	for _, kind := range []client.Object{&appsv1.StatefulSet{}, &v1alpha1.Agent{}} {
		if err := kit.IndexOwner(ctx, operator, kind); err != nil {
			return err
		}
	}
	if err := operator.GetFieldIndexer().IndexField(ctx, &v1alpha1.Task{}, taskIndex, swarmOf); err != nil {
		return fmt.Errorf("index tasks by swarm: %w", err)
	}
	r := &reconciler{
		client: operator.GetClient(), live: operator.GetAPIReader(), status: kit.NewStatus[*v1alpha1.Swarm](operator, name).Patient(shownEvery, numbers),
		settings: options.Settings, board: options.Board, clock: options.Clock,
	}
	if err := addRetention(operator, options); err != nil {
		return err
	}
	return kit.New[*v1alpha1.Swarm](operator, name).
		Owns(&appsv1.StatefulSet{}).Owns(ondemand.Services()).Owns(ondemand.ConfigMaps()).Owns(&v1alpha1.Agent{}).
		Watches(&corev1.Secret{}, r.all).
		Signals(options.Signal).
		Finalizer(v1alpha1.Finalizer, r.clean).
		Gone(kit.Forget(options.Board.Dissolve)).
		Outside(options.Board.Dissolve).
		Paused(r.hold).
		Namespaces(options.Scope).
		Every(options.Resync).
		Concurrency(options.Workers).
		Build(r)
}

// Reconcile makes the world as the Swarm wants it.
func (r *reconciler) Reconcile(ctx context.Context, swarm *v1alpha1.Swarm) (kit.Result, error) {
	settings := r.settings(ctx)
	if settings.Authority == "" {
		return kit.RequeueAfter(untrusted, "NoAuthority"), nil // a pod without a CA could trust nobody
	}
	wanted := want(swarm, settings)
	world, err := r.observe(ctx, wanted)
	if err != nil {
		return kit.Done(), err
	}
	r.board.Govern(client.ObjectKeyFromObject(swarm), rules(wanted, world))
	failed := r.apply(ctx, swarm, plan(drained(wanted, world), world))
	result, err := r.report(ctx, wanted, world, failed)
	if needsUser(failed) {
		return refusedResult(result, failed), err // which is what keeps the user from being told
	}
	return result, errors.Join(failed, err)
}

// refusedResult asks for another look at a swarm that has told its user what is refused, sooner if part of its status is still to be written. It is
// not an error: the back-off of errors would begin with many attempts at what is bound to fail.
func refusedResult(reported kit.Result, failed error) kit.Result {
	if reported != kit.Done() {
		return reported
	}
	if isInvalid(failed) {
		return kit.RequeueAfter(refusedAgain, string(v1alpha1.ReasonApplyFailed))
	}
	return kit.RequeueAfter(refusedAgain, string(v1alpha1.ReasonNameTaken))
}

// taskIndex finds the Tasks of a swarm.
const taskIndex = "spec.swarmRef.name"

func swarmOf(task client.Object) []string { return []string{task.(*v1alpha1.Task).Spec.SwarmRef.Name} }

// all names every swarm.
func (r *reconciler) all(ctx context.Context, _ client.Object) []types.NamespacedName {
	swarms := &v1alpha1.SwarmList{}
	if err := r.client.List(ctx, swarms); err != nil {
		return nil // the cache is not there yet: then every swarm is still to come
	}
	names := make([]types.NamespacedName, 0, len(swarms.Items))
	for n := range swarms.Items {
		names = append(names, client.ObjectKeyFromObject(&swarms.Items[n]))
	}
	return names
}

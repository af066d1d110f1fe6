// Package swarm keeps what a Swarm is made of: a StatefulSet for each agent type, a Service, a ConfigMap and the Agents.
//
// It promises that all of it follows from the Swarm alone, under names that would be the same tomorrow; that it is written only
// where it differs; and that what is no longer wanted is deleted only if it is still the object that was looked at. It never
// decides anything in Reconcile: plan does, as a value.
package swarm

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is what logs, metrics, events and field managers call the controller.
const name = "swarm"

// Options are what the operator's configuration says about this controller.
type Options struct {
	Settings manifest.Settings
	Scope    *kit.Scope
	Resync   time.Duration
	Workers  int
}

type reconciler struct {
	client   client.Client
	status   *kit.Status[*v1alpha1.Swarm]
	settings manifest.Settings
}

// Add gives the operator the controller of Swarms.
func Add(ctx context.Context, operator *kit.Operator, options Options) error {
	for _, kind := range []client.Object{&appsv1.StatefulSet{}, &v1alpha1.Agent{}} {
		if err := kit.IndexOwner(ctx, operator, kind); err != nil {
			return err
		}
	}
	r := &reconciler{client: operator.GetClient(), status: kit.NewStatus[*v1alpha1.Swarm](operator, name), settings: options.Settings}
	return kit.New[*v1alpha1.Swarm](operator, name).
		Owns(&appsv1.StatefulSet{}).Owns(&corev1.Service{}).Owns(&corev1.ConfigMap{}).Owns(&v1alpha1.Agent{}).
		Namespaces(options.Scope).
		Every(options.Resync).
		Concurrency(options.Workers).
		Build(r)
}

// Reconcile makes the world as the Swarm wants it.
func (r *reconciler) Reconcile(ctx context.Context, swarm *v1alpha1.Swarm) (kit.Result, error) {
	wanted := want(swarm, r.settings)
	world, err := r.observe(ctx, wanted)
	if err != nil {
		return kit.Done(), err
	}
	plan := plan(wanted, world)
	if err := r.apply(ctx, plan); err != nil {
		return kit.Done(), err
	}
	if err := r.report(ctx, wanted, world); err != nil {
		return kit.Done(), fmt.Errorf("report on swarm %q: %w", swarm.Name, err)
	}
	return kit.Done(), nil
}

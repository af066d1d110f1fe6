// Package swarm manages the objects of a Swarm: a StatefulSet for each agent type, a Service, a ConfigMap and the Agents.
//
// It promises that all objects depend only on the Swarm and have stable names; that they are written only where they differ; and that
// unwanted objects are deleted only if they are unchanged since they were read. Reconcile makes no decisions: plan does, as a value.
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
	"github.com/swarm-io/swarm-operator/internal/cache/ondemand"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is the controller's name in logs, metrics, events and field managers.
const name = "swarm"

// Options are the configuration of this controller.
type Options struct {
	// Settings is called at each reconcile, because the CA changes while the operator runs.
	Settings   func(context.Context) manifest.Settings
	Dispatcher *dispatch.Dispatcher
	Trigger    *kit.Trigger // with which the dispatcher requests a reconcile
	Scope      *kit.Scope
	Resync     time.Duration
	Workers    int
	Clock      Clock // nil if the clock of this process is always right
}

// missingCARetryInterval is the maximum time until a swarm without a CA is reconciled again, in case the watch on its Secret was missed.
const missingCARetryInterval = 5 * time.Second

// rejectedRetryInterval is the delay before refused objects are tried again. A change of the Swarm triggers it sooner; the delay is for a
// change of the conflicting object, and for an API server that has learned a new field.
const rejectedRetryInterval = time.Minute

type reconciler struct {
	client     client.Client
	apiReader  client.Reader // past the cache
	status     *kit.Status[*v1alpha1.Swarm]
	settings   func(context.Context) manifest.Settings
	dispatcher *dispatch.Dispatcher
	clock      Clock
}

// Add adds the Swarm controller to the operator. Its cache must contain no Secret except the one with the link's CA: a change of it
// reconciles all swarms.
func Add(ctx context.Context, operator *kit.Operator, options Options) error {
	for _, kind := range []client.Object{&appsv1.StatefulSet{}, &v1alpha1.Agent{}} {
		if err := kit.IndexOwner(ctx, operator, kind); err != nil {
			return err
		}
	}
	if err := operator.GetFieldIndexer().IndexField(ctx, &v1alpha1.Task{}, taskIndex, indexTaskBySwarm); err != nil {
		return fmt.Errorf("index tasks by swarm: %w", err)
	}
	r := &reconciler{
		client: operator.GetClient(), apiReader: operator.GetAPIReader(),
		status:   kit.NewStatus[*v1alpha1.Swarm](operator, name).Throttled(statusWriteInterval, clearCounts),
		settings: options.Settings, dispatcher: options.Dispatcher, clock: options.Clock,
	}
	if err := addRetention(operator, options); err != nil {
		return err
	}
	return kit.New[*v1alpha1.Swarm](operator, name).
		Owns(&appsv1.StatefulSet{}).Owns(ondemand.Services()).Owns(ondemand.ConfigMaps()).Owns(&v1alpha1.Agent{}).
		Watches(&corev1.Secret{}, r.allSwarms).
		TriggeredBy(options.Trigger).
		Finalizer(v1alpha1.Finalizer, r.finalize).
		OnDeleted(kit.Forget(options.Dispatcher.RemoveSwarm)).
		OnOutOfScope(options.Dispatcher.RemoveSwarm).
		OnPaused(r.pauseAssignment).
		Namespaces(options.Scope).
		ResyncPeriod(options.Resync).
		Concurrency(options.Workers).
		Build(r)
}

// Reconcile creates and updates the objects of the Swarm.
func (r *reconciler) Reconcile(ctx context.Context, swarm *v1alpha1.Swarm) (kit.Result, error) {
	settings := r.settings(ctx)
	if settings.Authority == "" {
		return kit.RequeueAfter(missingCARetryInterval, "NoAuthority"), nil // an agent without a CA can trust no server
	}
	desired := desiredSwarm(swarm, settings)
	snapshot, err := r.observe(ctx, desired)
	if err != nil {
		return kit.Done(), err
	}
	r.dispatcher.SetSwarm(client.ObjectKeyFromObject(swarm), swarmRules(desired, snapshot))
	applyErr := r.apply(ctx, swarm, plan(limitScaleIn(desired, snapshot), snapshot))
	result, err := r.report(ctx, desired, snapshot, applyErr)
	if needsUser(applyErr) {
		return retryRejected(result, applyErr), err // without this status the user would not know
	}
	return result, errors.Join(applyErr, err)
}

// retryRejected requests another reconcile of a swarm whose status reports the refusal, sooner if part of the status is yet to be
// written. It is not an error: the error back-off would begin with many attempts that are bound to fail.
func retryRejected(reported kit.Result, applyErr error) kit.Result {
	if reported != kit.Done() {
		return reported
	}
	if isInvalid(applyErr) {
		return kit.RequeueAfter(rejectedRetryInterval, string(v1alpha1.ReasonApplyFailed))
	}
	return kit.RequeueAfter(rejectedRetryInterval, string(v1alpha1.ReasonNameTaken))
}

// taskIndex indexes Tasks by swarm.
const taskIndex = "spec.swarmRef.name"

func indexTaskBySwarm(task client.Object) []string {
	return []string{task.(*v1alpha1.Task).Spec.SwarmRef.Name}
}

// allSwarms returns every swarm.
func (r *reconciler) allSwarms(ctx context.Context, _ client.Object) []types.NamespacedName {
	swarms := &v1alpha1.SwarmList{}
	if err := r.client.List(ctx, swarms); err != nil {
		return nil // the cache is not ready: every swarm is still to be reconciled
	}
	names := make([]types.NamespacedName, 0, len(swarms.Items))
	for n := range swarms.Items {
		names = append(names, client.ObjectKeyFromObject(&swarms.Items[n]))
	}
	return names
}

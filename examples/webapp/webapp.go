package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

const name = "webapp"

// A reconciler gives every WebApp a Deployment, a Service and an entry in the registry.
type reconciler struct {
	client   client.Client
	status   *kit.Status[*v1.WebApp]
	registry registry
}

// An observedState holds the objects of a WebApp, nil for those that do not exist.
type observedState struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
}

// Reconcile brings the cluster to the state that the WebApp asks for.
func (r *reconciler) Reconcile(ctx context.Context, app *v1.WebApp) (kit.Result, error) {
	state, err := r.observe(ctx, app)
	if err != nil {
		return kit.Done(), err
	}
	if err := r.apply(ctx, app, state); err != nil {
		return kit.Done(), err
	}
	return r.report(ctx, app, state, r.registry.register(ctx, app))
}

// unregister removes the WebApp from the registry. Its objects in the cluster are deleted through their owner references.
func (r *reconciler) unregister(ctx context.Context, app *v1.WebApp) (kit.Cleanup, error) {
	if err := r.registry.unregister(ctx, app); err != nil {
		report := r.status.Report(app, &app.Status.Conditions)
		report.Warning(condition(metav1.ConditionFalse, "RegistryUnavailable", err.Error()))
		return kit.Pending("RegistryUnavailable"), report.Write(ctx)
	}
	return kit.Cleaned(), nil
}

func (r *reconciler) observe(ctx context.Context, app *v1.WebApp) (observedState, error) {
	state := observedState{deployment: &appsv1.Deployment{}, service: &corev1.Service{}}
	key := client.ObjectKeyFromObject(app)
	if err := r.client.Get(ctx, key, state.deployment); apierrors.IsNotFound(err) {
		state.deployment = nil
	} else if err != nil {
		return observedState{}, fmt.Errorf("read deployment: %w", err)
	}
	if err := r.client.Get(ctx, key, state.service); apierrors.IsNotFound(err) {
		state.service = nil
	} else if err != nil {
		return observedState{}, fmt.Errorf("read service: %w", err)
	}
	return state, nil
}

// apply writes the difference, which is usually empty.
func (r *reconciler) apply(ctx context.Context, app *v1.WebApp, state observedState) error {
	owner, err := kit.OwnerReference(app, r.client.Scheme())
	if err != nil {
		return err
	}
	options := []client.ApplyOption{client.FieldOwner(name), client.ForceOwnership}
	if !isDeploymentCurrent(app, state.deployment) {
		if err := r.client.Apply(ctx, deployment(app).WithOwnerReferences(owner), options...); err != nil {
			return fmt.Errorf("apply deployment: %w", err)
		}
	}
	if !isServiceCurrent(app, state.service) {
		if err := r.client.Apply(ctx, service(app).WithOwnerReferences(owner), options...); err != nil {
			return fmt.Errorf("apply service: %w", err)
		}
	}
	return nil
}

// report is the only status write. A WebApp that is not registered is retried with a growing delay.
func (r *reconciler) report(ctx context.Context, app *v1.WebApp, state observedState, registryErr error) (result kit.Result, err error) {
	report := r.status.Report(app, &app.Status.Conditions)
	app.Status.URL = address(app)
	app.Status.ReadyReplicas = 0
	if state.deployment != nil {
		app.Status.ReadyReplicas = state.deployment.Status.ReadyReplicas
	}
	switch ready, desired := app.Status.ReadyReplicas, replicas(app); {
	case registryErr != nil:
		report.Warning(condition(metav1.ConditionFalse, "RegistryUnavailable", registryErr.Error()))
		result = kit.Requeue("RegistryUnavailable")
	case ready < desired:
		report.Normal(condition(metav1.ConditionFalse, "Starting", fmt.Sprintf("%d of %d replicas are ready", ready, desired)))
	default:
		report.Normal(condition(metav1.ConditionTrue, "Available", fmt.Sprintf("answers at %s", app.Status.URL)))
	}
	return result, report.Write(ctx)
}

func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message}
}

// Package poollabel creates a WorkerPool for every StatefulSet that is labeled with a pool's name and has none, with the jobs of the
// ConfigMap swarm-controller-config.
//
// It promises that a pool created by a user is never changed or deleted, and that a pool it created is deleted with the label: the
// ConfigMap stays, and workers keep their jobs. It never touches the StatefulSet.
package poollabel

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// controllerName is the controller's name in logs, metrics and events.
	controllerName = "adoption"
	// jobsConfigMap and jobsKey locate the jobs of a created pool.
	jobsConfigMap = "swarm-controller-config"
	jobsKey       = "config.yml"
	// portName is the name of the container port at which a worker acknowledges.
	portName = "internal"
)

// Options are the configuration of this controller.
type Options struct {
	Scope   *kit.Scope
	Workers int
}

type reconciler struct {
	client   client.Client
	recorder events.EventRecorder
}

// Add adds the controller of labeled StatefulSets to the operator.
func Add(ctx context.Context, operator *kit.Operator, options Options) error {
	if err := kit.IndexOwner(ctx, operator, &v1alpha1.WorkerPool{}); err != nil {
		return err
	}
	r := &reconciler{client: operator.GetClient(), recorder: operator.GetEventRecorder(controllerName)}
	return kit.New[*appsv1.StatefulSet](operator, controllerName).
		Owns(&v1alpha1.WorkerPool{}).
		Namespaces(options.Scope).
		Concurrency(options.Workers).
		Build(r)
}

// Reconcile creates the pool that a label requests, and deletes the one that no label requests any more.
func (r *reconciler) Reconcile(ctx context.Context, workload *appsv1.StatefulSet) (kit.Result, error) {
	if !workload.DeletionTimestamp.IsZero() {
		return kit.Done(), nil // the created pool is deleted with it
	}
	pools := &v1alpha1.WorkerPoolList{}
	if err := kit.ListOwned(ctx, r.client, workload, pools); err != nil {
		return kit.Done(), err
	}
	poolName, exists := workload.Labels[v1alpha1.LabelPool], false
	for n := range pools.Items {
		if pools.Items[n].Name == poolName {
			exists = true
		} else if err := r.deletePool(ctx, workload, &pools.Items[n]); err != nil {
			return kit.Done(), err
		}
	}
	if poolName == "" || exists {
		return kit.Done(), nil
	}
	return kit.Done(), r.createPool(ctx, workload, poolName)
}

// createPool creates the pool, unless a user has created one of that name.
func (r *reconciler) createPool(ctx context.Context, workload *appsv1.StatefulSet, name string) error {
	err := r.client.Get(ctx, client.ObjectKey{Namespace: workload.Namespace, Name: name}, &v1alpha1.WorkerPool{})
	if err == nil || !apierrors.IsNotFound(err) {
		return client.IgnoreNotFound(err)
	}
	if workloads.TooLarge(workload) { // the port at which workers acknowledge may be missing
		r.recorder.Eventf(workload, nil, corev1.EventTypeWarning, "PoolRefused", "Reconcile", "%s", workloads.WorkloadTooLarge)
		return nil
	}
	pool := poolFor(workload, name)
	err = r.client.Create(ctx, pool)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsInvalid(err):
		r.recorder.Eventf(workload, nil, corev1.EventTypeWarning, "PoolRefused", "Reconcile", "%v", err)
		return kit.Terminal(fmt.Errorf("make pool %q: %w", name, err))
	case err != nil:
		return fmt.Errorf("make pool %q: %w", name, err)
	}
	r.recorder.Eventf(workload, pool, corev1.EventTypeNormal, "PoolMade", "Reconcile",
		"WorkerPool %q was made for the label %s, with jobs from ConfigMap %q", name, v1alpha1.LabelPool, jobsConfigMap)
	return nil
}

// deletePool deletes a pool that was created for a label that has been removed.
func (r *reconciler) deletePool(ctx context.Context, workload *appsv1.StatefulSet, pool *v1alpha1.WorkerPool) error {
	if !pool.DeletionTimestamp.IsZero() {
		return nil
	}
	err := r.client.Delete(ctx, pool, client.Preconditions{UID: &pool.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove pool %q: %w", pool.Name, err)
	}
	r.recorder.Eventf(workload, nil, corev1.EventTypeNormal, "PoolRemoved", "Reconcile",
		"deleted WorkerPool %q because label %s was removed; ConfigMap %q is unchanged", pool.Name, v1alpha1.LabelPool, pool.ConfigName())
	return nil
}

// poolFor returns the pool of a labeled StatefulSet. It is deleted with the StatefulSet.
func poolFor(workload *appsv1.StatefulSet, name string) *v1alpha1.WorkerPool {
	pool := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: workload.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet", Name: workload.Name, UID: workload.UID, Controller: new(true),
			}},
		},
		Spec: v1alpha1.WorkerPoolSpec{
			Workers:  v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: workload.Name},
			JobsFrom: []v1alpha1.JobSource{{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: jobsConfigMap, Key: jobsKey}}},
		},
	}
	if port := acknowledgePort(workload.Spec.Template.Spec.Containers); port > 0 {
		pool.Spec.Refresh.Acknowledge = &v1alpha1.PoolAcknowledge{HTTPGet: v1alpha1.AcknowledgeHTTPGet{Port: port}}
	}
	return pool
}

// acknowledgePort returns the port at which workers acknowledge, 0 for none.
func acknowledgePort(containers []corev1.Container) int32 {
	for _, container := range containers {
		for _, port := range container.Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return 0
}

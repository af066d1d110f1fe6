// Package pool changes the pods of worker pools before they are stored. The template of a StatefulSet cannot name a ConfigMap per
// ordinal, so with layout PerWorker admission sets the worker's own.
//
// It promises:
//   - The answer follows from the pod, its pool's spec and what is published for the worker: a dry run gets the same one.
//   - It changes only a pod's volumes of the pool's ConfigMap and the annotation with the version of its list, or rejects the pod with
//     one line that names the fix.
//   - A worker that returns under a name that had a list starts nothing from an older one: its pod names the version from the start.
//   - Pods of other workloads, without the label of a pool, or in namespaces out of scope are admitted unchanged.
//
// It writes nothing to the cluster.
package pool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/kit"
)

// Path is where the API server calls the webhook.
const Path = "/pods"

// Pods returns the webhook for pods. The reader should be a cache, as every pod creation waits for the answer. What is published for a
// worker is read live, once for each pod of a StatefulSet.
func Pods(reader, live client.Reader, scheme *runtime.Scheme, scope *kit.Scope) *admission.Webhook {
	hook := admission.WithDefaulter(scheme, podDefaulter{reader, live, scope})
	hook.LogConstructor = limit.Logger
	return hook
}

type podDefaulter struct {
	reader client.Reader
	live   client.Reader // bypasses the cache
	scope  *kit.Scope
}

// Default implements admission.Defaulter.
func (p podDefaulter) Default(ctx context.Context, pod *corev1.Pod) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	name := pod.Labels[v1alpha1.LabelPool]
	inScope, err := p.isInScope(ctx, request.Namespace)
	if err != nil || name == "" || !inScope {
		return err
	}
	pool := &v1alpha1.WorkerPool{}
	switch err := p.reader.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: name}, pool); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no WorkerPool %q in namespace %q: create it first, or take the label %s off the pod's template", name,
			request.Namespace, v1alpha1.LabelPool)
	case err != nil:
		return readError("WorkerPool", name, err)
	}
	if err := mountWorkerConfig(pod, pool); err != nil {
		return err
	}
	return p.annotateConfigVersion(ctx, pod, pool)
}

// isInScope reports whether a namespace is in scope. One that the cache does not know yet counts as in scope: a rejected pod is
// retried, an admitted one cannot be changed.
func (p podDefaulter) isInScope(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := p.reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, readError("namespace", name, err)
	}
	return p.scope.Includes(namespace), nil
}

// readError is a failure of ours, not of the pod.
func readError(kind, name string, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("read %s %q: %w", kind, name, err))
}

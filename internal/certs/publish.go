package certs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// ConfigMapName is the name of the ConfigMap in the operator's namespace that has the bundle, under the key ca.crt: for clients that
// may not read the Secret, such as Prometheus.
const ConfigMapName = "swarm-operator-ca"

// errConflict is returned when the ConfigMap was written in the meantime.
var errConflict = errors.New("the ConfigMap was written by another client")

func (r *reconciler) configMapKey() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: ConfigMapName}
}

// publish writes the bundle to the ConfigMap if it differs. It bypasses the cache, which may not hold this namespace.
func (r *reconciler) publish(ctx context.Context, bundle []byte) error {
	current := &corev1.ConfigMap{}
	err := r.live.Get(ctx, r.configMapKey(), current)
	switch {
	case apierrors.IsNotFound(err):
		err = r.client.Create(ctx, r.configMap(bundle))
	case err != nil:
		return fmt.Errorf("read ConfigMap %q: %w", ConfigMapName, err)
	case current.Data[bundleKey] == string(bundle):
		return nil
	default:
		current.Data = map[string]string{bundleKey: string(bundle)}
		err = r.client.Update(ctx, current)
	}
	switch {
	case errors.Is(err, kit.ErrNotLeading), errors.Is(err, context.Canceled):
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return errConflict
	case err != nil:
		return fmt.Errorf("write ConfigMap %q: %w", ConfigMapName, err)
	}
	return nil
}

func (r *reconciler) configMap(bundle []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: ConfigMapName,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator, "app.kubernetes.io/part-of": "swarm-operator"},
		},
		Data: map[string]string{bundleKey: string(bundle)},
	}
}

// configMapSource is the source of events of the ConfigMap, if the cache holds its namespace.
func (r *reconciler) configMapSource(mgr manager.Manager) source.Source {
	kind := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return r.requests() })
	isPublished := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return client.ObjectKeyFromObject(object) == r.configMapKey()
	})
	return source.Kind(mgr.GetCache(), client.Object(kind), enqueue, isPublished)
}

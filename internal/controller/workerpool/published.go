package workerpool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// readPublished reads the ConfigMaps of a pool, or returns who owns them.
func (r *reconciler) readPublished(ctx context.Context, pool *v1alpha1.WorkerPool, state *localState) (plan.Published, *plan.Problem, error) {
	objects, err := r.readConfigMaps(ctx, pool, state)
	if err != nil {
		return plan.Published{}, nil, err
	}
	config := plan.Published{ConfigMaps: map[string]*plan.ConfigMap{}, Ledger: codec.Ledger{}, Missing: len(objects) == 0}
	for _, object := range objects {
		isOurs := object.Labels[v1alpha1.LabelPool] == pool.Name
		if writer, err := r.findOtherWriter(ctx, pool, object); err != nil || writer != "" {
			return config, plan.NewProblem(v1alpha1.ReasonConfigNotOurs, "ConfigMap %q belongs to %s, which writes it: choose another config.name",
				object.Name, writer), err
		}
		if !isOurs && pool.Spec.Config.Adopt != v1alpha1.AdoptAlways && len(object.Data)+len(object.BinaryData) > 0 {
			return config, plan.NewProblem(v1alpha1.ReasonConfigNotOurs,
				"ConfigMap %q is not the operator's, and nothing in it is overwritten: set config.adopt to Always, choose another config.name, or delete it", object.Name), nil
		}
		config.Add(state.configMapOf(object, pool.Spec.Config.Key), isOurs)
	}
	return config, nil, nil
}

// findOtherWriter names the object that manages a ConfigMap: its controller, or another pool. Not even config.adopt may take it over,
// because both would overwrite each other forever.
func (r *reconciler) findOtherWriter(ctx context.Context, pool *v1alpha1.WorkerPool, object *corev1.ConfigMap) (string, error) {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil && owner.UID != pool.UID {
		return fmt.Sprintf("%s %q", owner.Kind, owner.Name), nil
	}
	other := object.Labels[v1alpha1.LabelPool]
	if other == "" || other == pool.Name {
		return "", nil
	}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: other}, &v1alpha1.WorkerPool{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read pool %q: %w", other, err)
	}
	return fmt.Sprintf("WorkerPool %q", other), nil
}

// configMapOf returns a ConfigMap as read before if it is unchanged, or as we wrote it if the cache does not have the write yet.
func (s *localState) configMapOf(object *corev1.ConfigMap, key string) *plan.ConfigMap {
	cm := s.configMaps[object.Name]
	switch {
	case cm == nil || cm.IsOlderThan(object):
		cm = plan.ParseConfigMap(object, key).InheritFence(cm)
	case cm.Object.ResourceVersion == object.ResourceVersion:
		cm.Object = object // it shares its texts with the cache, unlike the result of a write
	}
	if cm.ContentDropped {
		cm = plan.ParseConfigMap(cm.Object, key).InheritFence(cm)
	}
	s.configMaps[object.Name] = cm
	return cm
}

// readConfigMaps returns the existing ConfigMaps of the pool from the cache: they must not be modified.
func (r *reconciler) readConfigMaps(ctx context.Context, pool *v1alpha1.WorkerPool, state *localState) ([]*corev1.ConfigMap, error) {
	objects := map[string]*corev1.ConfigMap{}
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker {
		list, reader := &corev1.ConfigMapList{}, client.Reader(r.client)
		if r.mayLackConfigMaps(pool, state) {
			reader = r.apiReader
		}
		poolLabel := client.MatchingLabels{v1alpha1.LabelPool: pool.Name}
		if err := reader.List(ctx, list, client.InNamespace(pool.Namespace), poolLabel, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list ConfigMaps of the pool: %w", err)
		}
		for n := range list.Items {
			objects[list.Items[n].Name] = &list.Items[n]
		}
	} else if err := r.readConfigMap(ctx, r.client, objects, client.ObjectKey{Namespace: pool.Namespace,
		Name: pool.ConfigName()}); err != nil {
		return nil, err
	}
	for name := range state.configMaps { // the cache may not have our writes yet, or they may have been deleted
		if objects[name] == nil {
			delete(state.configMaps, name)
			if err := r.readConfigMap(ctx, r.apiReader, objects, client.ObjectKey{Namespace: pool.Namespace, Name: name}); err != nil {
				return nil, err
			}
			if objects[name] == nil {
				state.ensuredTerm = 0 // what was published there must be restored first
			}
		}
	}
	result := make([]*corev1.ConfigMap, 0, len(objects))
	for _, object := range objects {
		result = append(result, object)
	}
	slices.SortFunc(result, func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	return result, nil
}

func (r *reconciler) readConfigMap(ctx context.Context, reader client.Reader, configMaps map[string]*corev1.ConfigMap,
	key client.ObjectKey) error {
	object := &corev1.ConfigMap{}
	err := reader.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ConfigMap %q: %w", key.Name, err)
	}
	configMaps[key.Name] = object
	return nil
}

package workerpool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	poolstate "github.com/swarm-io/swarm-operator/internal/pool/state"
)

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
	reader := client.Reader(r.client)
	if r.mayLackConfigMaps(pool, state) {
		reader = r.apiReader
	}
	objects, err := poolstate.ConfigMaps(ctx, reader, pool)
	if err != nil {
		return nil, err
	}
	cached := make(map[string]bool, len(objects))
	for _, object := range objects {
		cached[object.Name] = true
	}
	for name := range state.configMaps { // the cache may not have our writes yet, or they may have been deleted
		if cached[name] {
			continue
		}
		delete(state.configMaps, name)
		object, err := poolstate.ConfigMap(ctx, r.apiReader, client.ObjectKey{Namespace: pool.Namespace, Name: name})
		switch {
		case err != nil:
			return nil, err
		case object == nil:
			state.ensuredTerm = 0 // what was published there must be restored first
		default:
			objects = append(objects, object)
		}
	}
	poolstate.SortConfigMaps(objects)
	return objects, nil
}

// readPublished returns what was published, or who owns the ConfigMaps.
func (r *reconciler) readPublished(
	ctx context.Context, pool *v1alpha1.WorkerPool, state *localState,
) (plan.Published, *plan.Problem, error) {
	objects, err := r.readConfigMaps(ctx, pool, state)
	if err != nil {
		return plan.Published{}, nil, err
	}
	return poolstate.Published(ctx, r.client, pool, objects, func(object *corev1.ConfigMap) *plan.ConfigMap {
		return state.configMapOf(object, pool.ConfigKey())
	})
}

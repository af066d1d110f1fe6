package workerpool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// ensureConfig takes over the config before any decision is based on it: it exists, empty at first; no other writer has changed it; and
// this leader has raised its fence, so that a late write of an earlier leader is refused.
func (r *reconciler) ensureConfig(ctx context.Context, pool *v1alpha1.WorkerPool, snapshot *plan.Snapshot) error {
	state := r.stateFor(pool)
	if snapshot.Published.Missing || snapshot.Published.Modified {
		// A revision that is not in the cache yet may have been published: rebuild from the stored ones.
		var err error
		if snapshot.History, err = r.readHistory(ctx, pool, state, true); err != nil {
			return err
		}
		if err := r.restoreConfig(ctx, pool, snapshot, state); err != nil {
			return err
		}
	} else if r.mayLackConfigMaps(pool, state) {
		if err := r.restoreMissing(ctx, pool, snapshot, state); err != nil {
			return err
		}
	}
	term := r.leadership.Term()
	for _, name := range slices.Sorted(maps.Keys(snapshot.Published.ConfigMaps)) {
		cm := snapshot.Published.ConfigMaps[name]
		if cm.FencedTerm != term || cm.Object.Labels[v1alpha1.LabelPool] != pool.Name {
			if err := r.writeConfigMap(ctx, pool, cm, state); err != nil {
				return err
			}
			snapshot.Published.ConfigMaps[name] = state.configMaps[name]
		}
	}
	state.ensuredTerm = term
	return nil
}

// mayLackConfigMaps reports whether the cache may lack a ConfigMap that a former leader created, with the jobs it granted there. Under
// layout Shared there is only one, and the first write of a term is refused if the cache was stale.
func (r *reconciler) mayLackConfigMaps(pool *v1alpha1.WorkerPool, state *localState) bool {
	return pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && state.ensuredTerm != r.leadership.Term()
}

// restoreConfig publishes the stored revisions, in place of what is gone or was changed by another writer.
func (r *reconciler) restoreConfig(ctx context.Context, pool *v1alpha1.WorkerPool, snapshot *plan.Snapshot, state *localState) error {
	config := snapshot.RebuildConfig(pool)
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && len(config.File.Workers) == 0 {
		return nil // no worker can have one
	}
	configMaps := plan.SplitPerWorker(pool, config)
	if err := r.createPlaceholders(ctx, pool, configMaps, snapshot.Published.ConfigMaps); err != nil {
		return err
	}
	restored := plan.Published{ConfigMaps: map[string]*plan.ConfigMap{}, Ledger: codec.Ledger{}}
	for _, name := range slices.Sorted(maps.Keys(configMaps)) {
		if err := r.writeConfigMap(ctx, pool, configMaps[name], state); err != nil {
			return err
		}
		restored.Add(state.configMaps[name], true)
	}
	if len(snapshot.History) > 0 {
		state.events = append(state.events, pendingEvent{reason: "ConfigRestored",
			message: "the config was deleted, or changed by another client, and was restored from the kept revisions"})
	}
	snapshot.Published = restored
	return nil
}

// restoreMissing publishes the stored revisions for workers whose own ConfigMap is missing. If it was deleted, they may hold its jobs. If
// it has yet to be created, this is harmless: the worker gets an empty list, and its jobs when it has acknowledged that.
func (r *reconciler) restoreMissing(ctx context.Context, pool *v1alpha1.WorkerPool, snapshot *plan.Snapshot, state *localState) error {
	missing := plan.SplitPerWorker(pool, snapshot.RebuildConfig(pool))
	for name := range snapshot.Published.ConfigMaps {
		delete(missing, name)
	}
	if err := r.createPlaceholders(ctx, pool, missing, nil); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if err := r.writeConfigMap(ctx, pool, missing[name], state); err != nil {
			return err
		}
		snapshot.Published.Add(state.configMaps[name], true)
	}
	return nil
}

// createPlaceholders creates all missing ConfigMaps before the first one is restored, so that a leader that dies in between leaves no part
// of the config that looks complete.
func (r *reconciler) createPlaceholders(
	ctx context.Context, pool *v1alpha1.WorkerPool, configMaps, existing map[string]*plan.ConfigMap,
) error {
	for _, name := range slices.Sorted(maps.Keys(configMaps)) {
		cm := configMaps[name]
		switch old := existing[name]; {
		case old != nil:
			cm.Object = old.Object
		case len(configMaps) > 1 || cm.GrantsJobs():
			object := plan.Placeholder(pool, name, false)
			if err := r.client.Create(ctx, object); err != nil {
				return fmt.Errorf("create ConfigMap %q: %w", name, asConflict(err, name))
			}
			cm.Object = object
		default:
			cm.Object = plan.NewConfigMap(pool, name).Object
		}
	}
	return nil
}

// writeConfigMap stores a ConfigMap unless it has changed since it was read.
func (r *reconciler) writeConfigMap(ctx context.Context, pool *v1alpha1.WorkerPool, cm *plan.ConfigMap, state *localState) error {
	term, fence := r.leadership.Term(), cm.Fence()
	if cached := state.configMaps[cm.Object.Name]; cached == nil || cached.FencedTerm != term {
		if !plan.IsPlausible(fence) {
			state.addNumberIgnored("the annotation %s of ConfigMap %q was set to %d", v1alpha1.AnnotationFence, cm.Object.Name, fence)
		}
		fence = plan.NextFence(fence)
	}
	object, problem := cm.Render(pool, fence)
	if problem != nil {
		return fmt.Errorf("write ConfigMap %q: %s", cm.Object.Name, problem.Message)
	}
	if err := r.storeConfigMap(ctx, pool, object, cm.GrantsJobs()); err != nil {
		delete(state.configMaps, cm.Object.Name)
		return fmt.Errorf("write ConfigMap %q: %w", cm.Object.Name, asConflict(err, object.Name))
	}
	object.ManagedFields = nil // unused, and longer than the rest
	stored := plan.ParseConfigMap(object, pool.Spec.Config.Key)
	stored.FencedTerm = term
	state.configMaps[object.Name] = stored
	return nil
}

// storeConfigMap stores a ConfigMap. One that grants jobs is created without them first: the API server may carry out a Create of a former
// leader at any later time, but refuses an Update once another leader has raised the fence.
func (r *reconciler) storeConfigMap(ctx context.Context, pool *v1alpha1.WorkerPool, object *corev1.ConfigMap, grantsJobs bool) error {
	switch {
	case object.ResourceVersion != "":
		return r.client.Update(ctx, object)
	case !grantsJobs:
		return r.client.Create(ctx, object)
	}
	created := plan.Placeholder(pool, object.Name, true)
	if err := r.client.Create(ctx, created); err != nil {
		return err
	}
	object.UID, object.ResourceVersion = created.UID, created.ResourceVersion
	return r.client.Update(ctx, object)
}

// asConflict turns the errors that mean that the world has changed since it was read into a conflict.
func asConflict(err error, name string) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return apierrors.NewConflict(schema.GroupResource{}, name, err)
	}
	return err
}

// Package state reads what a WorkerPool consists of: its ConfigMaps, revisions, workload and pods. The controller, kubectl swarm and the
// HTTP API read through it, from a cache or from the API server, and so they agree on which objects belong to a pool.
package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// Read reads everything that a plan depends on from the API server. A pool whose workload or ConfigMaps cannot be used has a problem in its
// snapshot.
func Read(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{AllPolled: true, PodsVerified: true}
	sources, err := JobSources(ctx, reader, pool)
	if err != nil {
		return snapshot, err
	}
	snapshot.Jobs = snapshot.Jobs.Update(pool, sources)
	if snapshot.History, err = History(ctx, reader, pool); err != nil {
		return snapshot, err
	}
	if _, snapshot.Workload, snapshot.Problem, err = FindWorkload(ctx, reader, pool); err != nil || snapshot.Problem != nil {
		return snapshot, err
	}
	objects, err := ConfigMaps(ctx, reader, pool)
	if err != nil {
		return snapshot, err
	}
	snapshot.Published, snapshot.Problem, err = Published(ctx, reader, pool, objects, func(object *corev1.ConfigMap) *plan.ConfigMap {
		return plan.ParseConfigMap(object, pool.ConfigKey())
	})
	if err != nil || snapshot.Problem != nil {
		return snapshot, err
	}
	if snapshot.Pods, err = Pods(ctx, reader, snapshot.Workload); err != nil {
		return snapshot, err
	}
	absent, err := PodsNamed(ctx, reader, pool.Namespace, snapshot.AbsentWorkers())
	snapshot.ClassifyAbsent(absent)
	return snapshot, err
}

// JobSources returns the ConfigMaps that contain the jobs of a pool.
func JobSources(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool) ([]plan.JobSource, error) {
	var sources []plan.JobSource
	for _, from := range pool.Spec.JobsFrom {
		object, err := ConfigMap(ctx, reader, client.ObjectKey{Namespace: pool.Namespace, Name: from.ConfigMapKeyRef.Name})
		if err != nil {
			return nil, err
		}
		sources = append(sources, plan.JobSource{Key: from.ConfigMapKeyRef, ConfigMap: object})
	}
	return sources, nil
}

// ConfigMaps returns the existing ConfigMaps of a pool: the one of all its workers, or the labeled ones of each. The first may not be the
// operator's. They must not be modified.
func ConfigMaps(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool) ([]*corev1.ConfigMap, error) {
	if pool.Spec.Config.Layout != v1alpha1.LayoutPerWorker {
		object, err := ConfigMap(ctx, reader, client.ObjectKey{Namespace: pool.Namespace, Name: pool.ConfigName()})
		if err != nil || object == nil {
			return nil, err
		}
		return []*corev1.ConfigMap{object}, nil
	}
	list := &corev1.ConfigMapList{}
	if err := reader.List(ctx, list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ConfigMaps of the pool: %w", err)
	}
	var objects []*corev1.ConfigMap
	for n := range list.Items {
		if strings.HasPrefix(list.Items[n].Name, pool.ConfigNameOf("")) {
			objects = append(objects, &list.Items[n])
		}
	}
	SortConfigMaps(objects)
	return objects, nil
}

// SortConfigMaps sorts the ConfigMap of worker-2 before that of worker-10.
func SortConfigMaps(objects []*corev1.ConfigMap) {
	slices.SortFunc(objects, func(a, b *corev1.ConfigMap) int { return cmp.Or(len(a.Name)-len(b.Name), cmp.Compare(a.Name, b.Name)) })
}

// ConfigMap returns a ConfigMap, nil if there is none. It must not be modified.
func ConfigMap(ctx context.Context, reader client.Reader, key client.ObjectKey) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	err := reader.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %q: %w", key.Name, err)
	}
	return object, nil
}

// Published returns what the ConfigMaps of a pool contain, or a problem if another writer owns one of them.
func Published(
	ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool, objects []*corev1.ConfigMap,
	parse func(*corev1.ConfigMap) *plan.ConfigMap,
) (plan.Published, *plan.Problem, error) {
	published := plan.NewPublished(len(objects) == 0)
	for _, object := range objects {
		isOurs := object.Labels[v1alpha1.LabelPool] == pool.Name
		writer, err := otherWriter(ctx, reader, pool, object)
		switch {
		case err != nil:
			return published, nil, err
		case writer != "":
			return published, plan.NewProblem(v1alpha1.ReasonConfigNotOurs,
				"ConfigMap %q belongs to %s, which writes it: choose another config.name", object.Name, writer), nil
		case !isOurs && pool.Spec.Config.Adopt != v1alpha1.AdoptAlways && len(object.Data)+len(object.BinaryData) > 0:
			return published, plan.NewProblem(v1alpha1.ReasonConfigNotOurs,
				"ConfigMap %q is not the operator's, and nothing in it is overwritten: set config.adopt to Always, choose another config.name, or delete it",
				object.Name), nil
		}
		published.Add(parse(object), isOurs)
	}
	return published, nil, nil
}

// otherWriter names the object that manages a ConfigMap: its controller, or another pool. Not even config.adopt may take it over, because
// both would overwrite each other forever.
func otherWriter(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool, object *corev1.ConfigMap) (string, error) {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil && owner.UID != pool.UID {
		return fmt.Sprintf("%s %q", owner.Kind, owner.Name), nil
	}
	other := object.Labels[v1alpha1.LabelPool]
	if other == "" || other == pool.Name {
		return "", nil
	}
	err := reader.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: other}, &v1alpha1.WorkerPool{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read pool %q: %w", other, err)
	}
	return fmt.Sprintf("WorkerPool %q", other), nil
}

// Revisions returns the stored revisions that a pool controls. Others may carry its label: if the pods of a StatefulSet do, so do its
// revisions.
func Revisions(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := reader.List(ctx, list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name}); err != nil {
		return nil, fmt.Errorf("list revisions of pool %q: %w", pool.Name, err)
	}
	return slices.DeleteFunc(list.Items, func(object appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&object, pool) }), nil
}

// History returns the revisions of a pool with their lists, by number. Numbers that the operator has not given out are left out.
func History(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool) ([]plan.StoredRevision, error) {
	objects, err := Revisions(ctx, reader, pool)
	if err != nil {
		return nil, err
	}
	var history []plan.StoredRevision
	for n := range objects {
		if !plan.IsPlausible(objects[n].Revision) {
			continue
		}
		raw, err := codec.DecompressRevision(objects[n].Data.Raw)
		if err != nil {
			return nil, fmt.Errorf("ControllerRevision %q: %w: delete it", objects[n].Name, err)
		}
		revision, err := plan.ParseRevision(&objects[n], raw)
		if err != nil {
			return nil, fmt.Errorf("ControllerRevision %q: %w: delete it", objects[n].Name, err)
		}
		history = append(history, revision)
	}
	slices.SortFunc(history, func(a, b plan.StoredRevision) int { return cmp.Compare(a.Number, b.Number) })
	if len(history) > 0 {
		history[len(history)-1].BuildIndex()
	}
	return history, nil
}

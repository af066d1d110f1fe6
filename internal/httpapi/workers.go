package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// usualKey is the key of the workers' file in a ConfigMap, unless the pool sets another.
const usualKey = "config.yml"

// Worker is a pod of a pool with the list that was published for it, and its progress from the pool's status.
type Worker struct {
	Name         string                   `json:"name"`
	Jobs         []string                 `json:"jobs"`
	Version      int64                    `json:"version"`
	Acknowledged v1alpha1.Acknowledgement `json:"acknowledged"`
	State        v1alpha1.WorkerState     `json:"state"`
}

// WorkerDetail is one worker.
type WorkerDetail struct {
	Worker
	Problem string `json:"problem,omitempty"` // why its jobs may be missing
}

func (a *api) worker(ctx context.Context, asked question) (any, error) {
	of, err := a.findPool(ctx, asked)
	if err != nil {
		return nil, err
	}
	entries, unread := a.published(ctx, of)
	for _, worker := range workersOf(of, entries) {
		if worker.Name == asked.worker {
			return WorkerDetail{worker, oneLine(unread)}, nil
		}
	}
	missing := refuse(http.StatusNotFound, "worker %q not found in pool %q in namespace %q", asked.worker, asked.name, asked.namespace)
	if unread != nil {
		return nil, fmt.Errorf("%w: %w", missing, unread)
	}
	return nil, missing
}

// workersOf returns the workers of the published files, in their order, then those that only the status has: they have no list.
func workersOf(of *v1alpha1.WorkerPool, entries []roster.Entry) []Worker {
	known := make(map[string]v1alpha1.WorkerStatus, len(of.Status.Workers))
	for _, status := range of.Status.Workers {
		known[status.Name] = status
	}
	workers := make([]Worker, 0, len(entries))
	add := func(name string, version int64, jobs []string) {
		status := known[name]
		delete(known, name)
		workers = append(workers, Worker{name, orEmpty(jobs), version, status.Acknowledged, status.State})
	}
	for _, entry := range entries {
		add(entry.Worker, entry.Version, entry.Jobs)
	}
	for _, status := range slices.SortedFunc(slices.Values(of.Status.Workers), func(a, b v1alpha1.WorkerStatus) int { return byOrdinal(a.Name, b.Name) }) {
		if _, left := known[status.Name]; left {
			add(status.Name, 0, nil)
		}
	}
	return workers
}

// byOrdinal sorts worker-2 before worker-10.
func byOrdinal(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// published returns the lists in the pool's own ConfigMaps. A missing one has no lists; an unreadable one is an error, returned with
// the lists of the others.
func (a *api) published(ctx context.Context, of *v1alpha1.WorkerPool) ([]roster.Entry, error) {
	configs, err := a.configs(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("read the published lists: %w", err)
	}
	var entries []roster.Entry
	var problems []error
	for _, config := range configs {
		file, err := roster.ReadFile(config.Data[cmp.Or(of.Spec.Config.Key, usualKey)])
		if err != nil {
			problems = append(problems, fmt.Errorf("ConfigMap %q: %w", config.Name, err))
		}
		entries = append(entries, file.Workers...)
	}
	return entries, errors.Join(problems...)
}

// configs returns the ConfigMaps of a pool. They must have its label: a pool may name any ConfigMap, and must not disclose others.
func (a *api) configs(ctx context.Context, of *v1alpha1.WorkerPool) ([]corev1.ConfigMap, error) {
	if of.Spec.Config.Layout != v1alpha1.LayoutPerWorker {
		return a.sharedConfig(ctx, of)
	}
	found := &corev1.ConfigMapList{}
	if err := a.reader.List(ctx, found, client.InNamespace(of.Namespace), client.MatchingLabels{v1alpha1.LabelPool: of.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(found.Items, func(config corev1.ConfigMap) bool { return !strings.HasPrefix(config.Name, of.ConfigName()+"-") })
	slices.SortFunc(own, func(a, b corev1.ConfigMap) int { return byOrdinal(a.Name, b.Name) })
	return own, nil
}

func (a *api) sharedConfig(ctx context.Context, of *v1alpha1.WorkerPool) ([]corev1.ConfigMap, error) {
	found := corev1.ConfigMap{}
	err := a.reader.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.ConfigName()}, &found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case found.Labels[v1alpha1.LabelPool] != of.Name:
		return nil, fmt.Errorf("ConfigMap %q is not this pool's: it has no label %s=%s", found.Name, v1alpha1.LabelPool, of.Name)
	}
	return []corev1.ConfigMap{found}, nil
}

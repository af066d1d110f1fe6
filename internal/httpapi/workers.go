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
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// defaultConfigKey is the key of the workers' file in a ConfigMap, unless the pool sets another.
const defaultConfigKey = "config.yml"

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

func (a *api) worker(ctx context.Context, q query) (any, error) {
	wp, err := a.findPool(ctx, q)
	if err != nil {
		return nil, err
	}
	entries, readErr := a.readPublished(ctx, wp)
	for _, worker := range workersOf(wp, entries) {
		if worker.Name == q.worker {
			return WorkerDetail{worker, oneLine(readErr)}, nil
		}
	}
	notFound := problemf(http.StatusNotFound, "worker %q not found in pool %q in namespace %q", q.worker, q.name, q.namespace)
	if readErr != nil {
		return nil, fmt.Errorf("%w: %w", notFound, readErr)
	}
	return nil, notFound
}

// workersOf returns the workers of the published files, in their order, then those that only the status has: they have no list.
func workersOf(wp *v1alpha1.WorkerPool, entries []codec.FileEntry) []Worker {
	statuses := make(map[string]v1alpha1.WorkerStatus, len(wp.Status.Workers))
	for _, status := range wp.Status.Workers {
		statuses[status.Name] = status
	}
	workers := make([]Worker, 0, len(entries))
	add := func(name string, version int64, jobs []string) {
		status := statuses[name]
		delete(statuses, name)
		workers = append(workers, Worker{name, emptyIfNil(jobs), version, status.Acknowledged, status.State})
	}
	for _, entry := range entries {
		add(entry.Worker, entry.Version, entry.Jobs)
	}
	for _, status := range slices.SortedFunc(slices.Values(wp.Status.Workers),
		func(a, b v1alpha1.WorkerStatus) int { return compareWorkers(a.Name, b.Name) }) {
		if _, remaining := statuses[status.Name]; remaining {
			add(status.Name, 0, nil)
		}
	}
	return workers
}

// compareWorkers sorts worker-2 before worker-10.
func compareWorkers(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// readPublished returns the lists in the pool's own ConfigMaps. A missing one has no lists; an unreadable one is an error, returned with
// the lists of the others.
func (a *api) readPublished(ctx context.Context, wp *v1alpha1.WorkerPool) ([]codec.FileEntry, error) {
	configs, err := a.readConfigs(ctx, wp)
	if err != nil {
		return nil, fmt.Errorf("read the published lists: %w", err)
	}
	var entries []codec.FileEntry
	var problems []error
	for _, config := range configs {
		file, err := codec.ParseFile(config.Data[cmp.Or(wp.Spec.Config.Key, defaultConfigKey)])
		if err != nil {
			problems = append(problems, fmt.Errorf("ConfigMap %q: %w", config.Name, err))
		}
		entries = append(entries, file.Workers...)
	}
	return entries, errors.Join(problems...)
}

// readConfigs returns the ConfigMaps of a pool. They must have its label: a pool may name any ConfigMap, and must not disclose others.
func (a *api) readConfigs(ctx context.Context, wp *v1alpha1.WorkerPool) ([]corev1.ConfigMap, error) {
	if wp.Spec.Config.Layout != v1alpha1.LayoutPerWorker {
		return a.readSharedConfig(ctx, wp)
	}
	list := &corev1.ConfigMapList{}
	if err := a.reader.List(ctx, list, client.InNamespace(wp.Namespace), client.MatchingLabels{v1alpha1.LabelPool: wp.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(list.Items, func(config corev1.ConfigMap) bool { return !strings.HasPrefix(config.Name, wp.ConfigName()+"-") })
	slices.SortFunc(own, func(a, b corev1.ConfigMap) int { return compareWorkers(a.Name, b.Name) })
	return own, nil
}

func (a *api) readSharedConfig(ctx context.Context, wp *v1alpha1.WorkerPool) ([]corev1.ConfigMap, error) {
	found := corev1.ConfigMap{}
	err := a.reader.Get(ctx, client.ObjectKey{Namespace: wp.Namespace, Name: wp.ConfigName()}, &found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case found.Labels[v1alpha1.LabelPool] != wp.Name:
		return nil, fmt.Errorf("ConfigMap %q is not this pool's: it has no label %s=%s", found.Name, v1alpha1.LabelPool, wp.Name)
	}
	return []corev1.ConfigMap{found}, nil
}

package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/internal/pool/state"
)

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
// the lists of the others. A pool may name any ConfigMap, and must not disclose one that is not its own.
func (a *api) readPublished(ctx context.Context, wp *v1alpha1.WorkerPool) ([]codec.FileEntry, error) {
	configs, err := state.ConfigMaps(ctx, a.reader, wp)
	if err != nil {
		return nil, fmt.Errorf("read the published lists: %w", err)
	}
	var entries []codec.FileEntry
	var problems []error
	for _, config := range configs {
		if config.Labels[v1alpha1.LabelPool] != wp.Name {
			problems = append(problems, fmt.Errorf("read the published lists: ConfigMap %q is not this pool's: it has no label %s=%s",
				config.Name, v1alpha1.LabelPool, wp.Name))
			continue
		}
		parsed := plan.ParseConfigMap(config, wp.ConfigKey())
		if parsed.Err != nil {
			problems = append(problems, fmt.Errorf("ConfigMap %q: %w", config.Name, parsed.Err))
		}
		entries = append(entries, parsed.File.Workers...)
	}
	return entries, errors.Join(problems...)
}

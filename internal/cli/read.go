package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// defaultConfigKey is the default of the schema, for objects without defaults.
const defaultConfigKey = "config.yml"

// openPool connects to the cluster and reads a pool.
func (s *session) openPool(ctx context.Context, name string) (cluster, *v1alpha1.WorkerPool, error) {
	at, err := s.open()
	if err != nil {
		return at, nil, err
	}
	pool, err := at.readPool(ctx, name)
	return at, pool, err
}

func (c cluster) readPool(ctx context.Context, name string) (*v1alpha1.WorkerPool, error) {
	pool := &v1alpha1.WorkerPool{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, pool)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no pool %q in namespace %q: kubectl swarm pools -A lists all there are", name, c.namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("read pool %q: %w", name, err)
	}
	return pool, nil
}

// publishedLists is what was published for the workers of a pool.
type publishedLists struct {
	configs int // number of existing ConfigMaps
	version int64
	entries []codec.FileEntry
	ledger  codec.Ledger
}

// readPublished reads the ConfigMap of a pool, or those of its workers. A missing one counts as empty.
func (c cluster) readPublished(ctx context.Context, pool *v1alpha1.WorkerPool) (publishedLists, error) {
	lists := publishedLists{ledger: codec.Ledger{}}
	configs, err := c.readConfigs(ctx, pool)
	if err != nil {
		return lists, fmt.Errorf("read what pool %q has published: %w", pool.Name, err)
	}
	for _, config := range configs {
		file, err := codec.ParseFile(config.Data[cmp.Or(pool.Spec.Config.Key, defaultConfigKey)])
		if err != nil {
			return lists, fmt.Errorf("ConfigMap %q: %w: correct it, or delete it and let the operator write it anew", config.Name, err)
		}
		ledger, err := codec.DecodeLedger(config.Annotations[v1alpha1.AnnotationLedger])
		if err != nil {
			return lists, fmt.Errorf("ConfigMap %q: %w: delete it and let the operator write it anew", config.Name, err)
		}
		lists.configs++
		lists.version = max(lists.version, file.Version)
		lists.entries = append(lists.entries, file.Workers...)
		maps.Copy(lists.ledger, ledger)
	}
	return lists, nil
}

func (c cluster) readConfigs(ctx context.Context, pool *v1alpha1.WorkerPool) ([]corev1.ConfigMap, error) {
	if pool.Spec.Config.Layout != v1alpha1.LayoutPerWorker {
		var config corev1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: pool.ConfigName()}, &config); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return []corev1.ConfigMap{config}, nil
	}
	list := &corev1.ConfigMapList{}
	err := c.List(ctx, list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name})
	configs := slices.DeleteFunc(list.Items, func(config corev1.ConfigMap) bool {
		return !strings.HasPrefix(config.Name, pool.ConfigName()+"-")
	})
	slices.SortFunc(configs, func(a, b corev1.ConfigMap) int {
		return cmp.Or(len(a.Name)-len(b.Name),
			cmp.Compare(a.Name, b.Name))
	}) // worker-2 before worker-10
	return configs, err
}

// readJobs returns the jobs of a pool: of its spec, then of its ConfigMaps.
func (c cluster) readJobs(ctx context.Context, pool *v1alpha1.WorkerPool) ([]assign.Job, error) {
	jobs := codec.FromSpec(pool.Spec.Jobs)
	for _, from := range pool.Spec.JobsFrom {
		more, err := c.readJobsFrom(ctx, from.ConfigMapKeyRef)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
	}
	return jobs, nil
}

func (c cluster) readJobsFrom(ctx context.Context, key v1alpha1.ConfigMapKey) ([]assign.Job, error) {
	config := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: key.Name}, config)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no ConfigMap %q: create it, or take it out of spec.jobsFrom", key.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	text, found := config.Data[key.Key]
	if !found {
		return nil, fmt.Errorf("ConfigMap %q has no key %q: add it, or correct spec.jobsFrom", key.Name, key.Key)
	}
	jobs, err := codec.ParseJobs(text)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %q, key %q: %w: correct the list", key.Name, key.Key, err)
	}
	return jobs, nil
}

// storedRevision is a stored revision.
type storedRevision struct {
	name    string
	number  int64
	created time.Time
	data    codec.Revision
}

// readHistory returns the kept revisions of a pool, by number.
func (c cluster) readHistory(ctx context.Context, pool *v1alpha1.WorkerPool) ([]storedRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := c.List(ctx, list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name}); err != nil {
		return nil, fmt.Errorf("list revisions of pool %q: %w", pool.Name, err)
	}
	var revisions []storedRevision
	for n := range list.Items {
		object := &list.Items[n]
		// If the pods of a StatefulSet carry the label, so do its revisions.
		if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != pool.UID {
			continue
		}
		data, err := codec.DecodeRevision(object.Data.Raw)
		if err != nil {
			return nil, fmt.Errorf("ControllerRevision %q: %w: delete it", object.Name, err)
		}
		revisions = append(revisions, storedRevision{object.Name, object.Revision, object.CreationTimestamp.Time, data})
	}
	slices.SortFunc(revisions, func(a, b storedRevision) int { return cmp.Compare(a.number, b.number) })
	return revisions, nil
}

package workerpool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// published is what was published to workers.
type published struct {
	sheets  map[string]*sheet // by name of ConfigMap
	version int64             // the highest of all
	entries []roster.FileEntry
	ledger  roster.Ledger
	missing bool // there is no ConfigMap
	torn    bool // another writer has changed one
}

// records returns what workers may hold, by ordinal. No worker has confirmed anything yet.
func (p published) records(of workload) []assign.Record {
	records := p.ledger.Records(roster.File{Version: p.version, Workers: p.entries})
	for n := range records {
		if !of.slotted() {
			records[n].Ordinal = of.ordinal(records[n].Worker)
		}
	}
	slices.SortFunc(records, func(a, b assign.Record) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
	})
	return records
}

// published reads the ConfigMaps of a pool, or returns who owns them.
func (r *reconciler) published(ctx context.Context, pool *v1alpha1.WorkerPool, memory *memory) (published, *refusal, error) {
	objects, err := r.configs(ctx, pool, memory)
	if err != nil {
		return published{}, nil, err
	}
	found := published{sheets: map[string]*sheet{}, ledger: roster.Ledger{}, missing: len(objects) == 0}
	for _, object := range objects {
		ours := object.Labels[v1alpha1.LabelPool] == pool.Name
		if writer, err := r.otherWriter(ctx, pool, object); err != nil || writer != "" {
			return found, refuse(v1alpha1.ReasonConfigNotOurs, "ConfigMap %q belongs to %s, which writes it: choose another config.name", object.Name, writer), err
		}
		if !ours && pool.Spec.Config.Adopt != v1alpha1.AdoptAlways && len(object.Data)+len(object.BinaryData) > 0 {
			return found, refuse(v1alpha1.ReasonConfigNotOurs,
				"ConfigMap %q is not the operator's, and nothing in it is overwritten: set config.adopt to Always, choose another config.name, or delete it", object.Name), nil
		}
		found.add(memory.sheet(object, pool.Spec.Config.Key), ours)
	}
	return found, nil, nil
}

// otherWriter names the object that manages a ConfigMap: its controller, or another pool. Not even config.adopt may take it over, because
// both would overwrite each other forever.
func (r *reconciler) otherWriter(ctx context.Context, pool *v1alpha1.WorkerPool, object *corev1.ConfigMap) (string, error) {
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

func (p *published) add(s *sheet, ours bool) {
	p.sheets[s.object.Name] = s
	p.version = max(p.version, s.file.Version)
	p.entries = append(p.entries, s.file.Workers...)
	maps.Copy(p.ledger, s.ledger)
	p.torn = p.torn || ours && s.torn
}

// sheet returns a ConfigMap as read before if it is unchanged, or as we wrote it if the cache does not have the write yet.
func (m *memory) sheet(object *corev1.ConfigMap, key string) *sheet {
	known := m.sheets[object.Name]
	switch {
	case known == nil || known.older(object):
		known = read(object, key).inherit(known)
	case known.object.ResourceVersion == object.ResourceVersion:
		known.object = object // it shares its texts with the cache, unlike the result of a write
	}
	if known.folded {
		known = read(known.object, key).inherit(known)
	}
	m.sheets[object.Name] = known
	return known
}

// configs returns the existing ConfigMaps of the pool from the cache: they must not be modified.
func (r *reconciler) configs(ctx context.Context, pool *v1alpha1.WorkerPool, memory *memory) ([]*corev1.ConfigMap, error) {
	objects := map[string]*corev1.ConfigMap{}
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker {
		list, from := &corev1.ConfigMapList{}, client.Reader(r.client)
		if r.unsecured(pool, memory) {
			from = r.live
		}
		ours := client.MatchingLabels{v1alpha1.LabelPool: pool.Name}
		if err := from.List(ctx, list, client.InNamespace(pool.Namespace), ours, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list ConfigMaps of the pool: %w", err)
		}
		for n := range list.Items {
			objects[list.Items[n].Name] = &list.Items[n]
		}
	} else if err := r.config(ctx, r.client, objects, client.ObjectKey{Namespace: pool.Namespace, Name: pool.ConfigName()}); err != nil {
		return nil, err
	}
	for name := range memory.sheets { // the cache may not have our writes yet, or they may have been deleted
		if objects[name] == nil {
			delete(memory.sheets, name)
			if err := r.config(ctx, r.live, objects, client.ObjectKey{Namespace: pool.Namespace, Name: name}); err != nil {
				return nil, err
			}
			if objects[name] == nil {
				memory.term = 0 // what was published there must be restored first
			}
		}
	}
	all := make([]*corev1.ConfigMap, 0, len(objects))
	for _, object := range objects {
		all = append(all, object)
	}
	slices.SortFunc(all, func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (r *reconciler) config(ctx context.Context, from client.Reader, into map[string]*corev1.ConfigMap, key client.ObjectKey) error {
	object := &corev1.ConfigMap{}
	err := from.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ConfigMap %q: %w", key.Name, err)
	}
	into[key.Name] = object
	return nil
}

// blank returns the sheet of a ConfigMap that does not exist yet.
func blank(pool *v1alpha1.WorkerPool, name string) *sheet {
	return &sheet{object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: name}}, ledger: roster.Ledger{}}
}

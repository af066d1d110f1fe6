package workerpool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
	"github.com/swarm-io/swarm-operator/kit"
)

// kept is a revision that is stored.
type kept struct {
	number int64
	uid    types.UID
	name   string
	data   roster.Revision
	index  *assign.Revision // of the newest one
}

// stored returns the revisions of a pool, from the cache or past it.
func (r *reconciler) stored(ctx context.Context, pool *v1alpha1.WorkerPool, live bool) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if !live {
		err := kit.OwnedBy(ctx, r.client, pool, list)
		return list.Items, err
	}
	if err := r.live.List(ctx, list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name}); err != nil {
		return nil, fmt.Errorf("list revisions past the cache: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(object appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&object, pool) }), nil
}

// history are the stored revisions of a pool, by number. The newest one keeps its index.
func (r *reconciler) history(ctx context.Context, pool *v1alpha1.WorkerPool, memory *memory, live bool) ([]kept, error) {
	items, err := r.stored(ctx, pool, live)
	if err != nil {
		return nil, err
	}
	all := make([]kept, 0, len(items)+1)
	for n := range items {
		object := &items[n]
		if memory.kept != nil && memory.kept.uid == object.UID {
			continue
		}
		data, err := roster.ReadRevision(object.Data.Raw)
		if err != nil {
			return nil, kit.Terminal(fmt.Errorf("read ControllerRevision %q: %w", object.Name, err))
		}
		all = append(all, kept{number: object.Revision, uid: object.UID, name: object.Name, data: data})
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Compare(a.number, b.number) })
	if known := memory.kept; known != nil && (len(all) == 0 || known.number > all[len(all)-1].number) {
		known.restore()
		return append(all, *known), nil
	}
	if len(all) > 0 {
		memory.kept = &all[len(all)-1]
		memory.kept.restore()
	}
	return all, nil
}

// restore makes the index, if there is none.
func (k *kept) restore() {
	if k.index == nil {
		k.index = assign.Restore(k.data.Shares(), k.data.Algorithm)
	}
}

// file is what workers are told when the revision is carried out and nothing comes between.
func (k kept) file() roster.File {
	file := roster.File{Version: k.data.Version}
	for _, share := range k.data.Workers {
		if share.Version > 0 {
			file.Workers = append(file.Workers, roster.Entry{Worker: share.Worker, Version: share.Version, Jobs: share.Jobs})
		}
	}
	return file
}

func (k kept) ledger() roster.Ledger {
	ledger := roster.Ledger{}
	for _, share := range k.data.Workers {
		ledger[share.Worker] = roster.Account{Ordinal: share.Ordinal}
	}
	return ledger
}

// editions are the lists that the revisions from a number on, and then the config, gave each worker, oldest first.
func (w world) editions(from int64) []assign.Record {
	index, records := map[string]int{}, []assign.Record{}
	add := func(worker string, ordinal int, version int64, jobs []string) {
		at, known := index[worker]
		if !known {
			at = len(records)
			index[worker] = at
			records = append(records, assign.Record{Worker: worker, Ordinal: ordinal})
		}
		records[at] = records[at].Published(version, jobs)
	}
	for _, revision := range w.history {
		if revision.number >= from {
			for _, share := range revision.data.Workers {
				add(share.Worker, share.Ordinal, share.Version, share.Jobs)
			}
		}
	}
	for _, entry := range w.published.entries { // of a config that somebody else has changed
		add(entry.Worker, w.published.ledger[entry.Worker].Ordinal, entry.Version, entry.Jobs)
	}
	return records
}

func revisionName(pool *v1alpha1.WorkerPool, number int64) string {
	return fmt.Sprintf("%s-%d", pool.Name, number)
}

// keep stores a revision.
func (r *reconciler) keep(ctx context.Context, pool *v1alpha1.WorkerPool, revision kept, memory *memory) error {
	data, err := revision.data.Encode()
	if err != nil {
		return err
	}
	object := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pool.Namespace, Name: revisionName(pool, revision.number),
			Labels: map[string]string{v1alpha1.LabelPool: pool.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "WorkerPool", Name: pool.Name, UID: pool.UID, Controller: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: revision.number,
	}
	if err := r.client.Create(ctx, object); err != nil {
		return fmt.Errorf("keep revision %d: %w", revision.number, raced(err, object.Name))
	}
	revision.uid, revision.name = object.UID, object.Name
	memory.kept = &revision
	return nil
}

// discard deletes a revision, if it is still the one that was looked at.
func (r *reconciler) discard(ctx context.Context, pool *v1alpha1.WorkerPool, revision kept) error {
	object := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: revision.name}}
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &revision.uid})
	if ignorable(err) {
		return nil
	}
	return fmt.Errorf("discard revision %d: %w", revision.number, err)
}

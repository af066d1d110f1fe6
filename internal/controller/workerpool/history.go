package workerpool

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
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

// kept is a stored revision.
type kept struct {
	number  int64
	uid     types.UID
	name    string
	data    roster.Revision
	altered bool             // one of its versions is ignored
	sums    []uint64         // checksums of the lists, by worker, if the lists themselves are not needed
	encoded []byte           // if new
	index   *assign.Revision // if newest
}

// stored returns the revisions of a pool, from the cache or past it.
func (r *reconciler) stored(ctx context.Context, pool *v1alpha1.WorkerPool, live bool) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if !live {
		err := kit.ListOwned(ctx, r.client, pool, list)
		return list.Items, err
	}
	if err := r.live.List(ctx, list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name}); err != nil {
		return nil, fmt.Errorf("list revisions past the cache: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(object appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&object, pool) }), nil
}

// history returns the stored revisions of a pool, by number. The newest one keeps its index. The lists of the others are read only if
// needed: for the revision that the pool is pinned to and, past the cache, for those from which a lost config is restored.
func (r *reconciler) history(ctx context.Context, pool *v1alpha1.WorkerPool, memory *memory, live bool) ([]kept, error) {
	items, err := r.stored(ctx, pool, live)
	if err != nil {
		return nil, err
	}
	return r.readAll(ctx, pool, memory, items, live)
}

// readAll reads the revisions that are not in memory.
func (r *reconciler) readAll(
	ctx context.Context, pool *v1alpha1.WorkerPool, memory *memory, items []appsv1.ControllerRevision, live bool,
) (all []kept, err error) {
	known := memory.kept
	if known != nil && !believed(known.number) {
		known = nil
	}
	items = unread(items, known)
	newest := int64(0)
	if len(items) > 0 {
		newest = items[len(items)-1].Revision
	}
	remembered := known != nil && known.number > newest
	if remembered {
		newest = known.number
	}
	memory.believeStatus(pool, newest)
	reader := revisionReader{turns: r.turns, memory: memory}
	for n := range items {
		number := items[n].Revision
		is, err := reader.read(ctx, &items[n], number == newest || isNeeded(pool, number, live))
		if err != nil {
			return nil, err
		}
		all = append(all, is)
	}
	switch {
	case remembered:
		known.restore()
		return append(all, *known), nil
	case len(all) > 0:
		memory.kept = &all[len(all)-1]
		memory.kept.restore()
	}
	return all, nil
}

// unread returns the revisions to read, by number: those that are plausible and not in memory.
func unread(items []appsv1.ControllerRevision, known *kept) []appsv1.ControllerRevision {
	items = slices.DeleteFunc(items, func(object appsv1.ControllerRevision) bool {
		return !believed(object.Revision) || known != nil && known.uid == object.UID
	})
	slices.SortFunc(items, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return items
}

// isNeeded reports whether the lists of a revision are needed even if it is not the newest.
func isNeeded(pool *v1alpha1.WorkerPool, number int64, live bool) bool {
	return number == pool.Spec.RollbackTo || live && number >= pool.Status.ConvergedRevision
}

const (
	// mostHistory limits the total length of the revisions of a pool whose lists are needed at the same time.
	mostHistory = 64 << 20
	// heavy is the length up to which they need not wait for a turn. Parsed, they take several times as much memory, and any user who may
	// create ControllerRevisions can make them long at little cost.
	heavy = 4 << 20
)

// A revisionReader reads the revisions of a pool.
type revisionReader struct {
	turns  turns
	memory *memory
	whole  int // total length of those read with their lists
}

// read reads a revision, without its lists unless they are needed.
func (r *revisionReader) read(ctx context.Context, object *appsv1.ControllerRevision, needed bool) (kept, error) {
	is := kept{number: object.Revision, uid: object.UID, name: object.Name}
	unpacked, err := roster.DecompressRevision(object.Data.Raw)
	if err != nil {
		return is, kit.Terminal(fmt.Errorf("read ControllerRevision %q: %w", is.name, err))
	}
	if needed {
		r.whole += len(unpacked)
	}
	if r.whole > mostHistory {
		return is, kit.Terminal(fmt.Errorf("the revisions of the pool have more than %d bytes: delete the ControllerRevisions that the operator has not made",
			mostHistory))
	}
	if max(r.whole, len(unpacked)) > heavy {
		if err := r.turns.take(ctx, r.memory); err != nil {
			return is, err
		}
	}
	if is.data, err = roster.UnmarshalRevision(unpacked); err != nil {
		return is, kit.Terminal(fmt.Errorf("read ControllerRevision %q: %w", is.name, err))
	}
	is.altered = !believeRevision(&is.data)
	if !needed {
		is.sum()
	}
	return is, nil
}

// turns lets one reconcile at a time hold long revisions.
type turns chan struct{}

func newTurns() turns { return make(turns, 1) }

// take waits for the turn, which lasts until the end of the reconcile.
func (t turns) take(ctx context.Context, memory *memory) error {
	if memory.turn {
		return nil
	}
	select {
	case t <- struct{}{}:
		memory.turn = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to read revisions: %w", context.Cause(ctx))
	}
}

func (t turns) giveBack(memory *memory) {
	if memory.turn {
		memory.turn = false
		<-t
	}
}

// sums is the random seed of the checksums, so that collisions cannot be prepared.
var sums = maphash.MakeSeed()

// sum replaces the lists by their checksums.
func (k *kept) sum() {
	slim := roster.Revision{Version: k.data.Version, Workers: make([]roster.RevisionShare, len(k.data.Workers))}
	k.sums = make([]uint64, len(k.data.Workers))
	for n, share := range k.data.Workers {
		k.sums[n] = sumOf(share.Jobs)
		slim.Workers[n] = roster.RevisionShare{Worker: share.Worker, Ordinal: share.Ordinal, Version: share.Version}
	}
	k.data = slim
}

func sumOf(jobs []string) uint64 {
	var hash maphash.Hash
	hash.SetSeed(sums)
	for _, job := range jobs {
		_, _ = hash.WriteString(job) // never fails
		_ = hash.WriteByte(0)
	}
	return hash.Sum64()
}

// listOf returns the checksum of the list of an ordinal.
func (k kept) listOf(ordinal int) (sum uint64, found bool) {
	for n, share := range k.data.Workers {
		switch {
		case share.Ordinal != ordinal:
			continue
		case k.sums != nil:
			return k.sums[n], true
		}
		return sumOf(share.Jobs), true
	}
	return 0, false
}

// restore builds the index if there is none.
func (k *kept) restore() {
	if k.index == nil {
		k.index = assign.Restore(k.data.Shares(), k.data.Algorithm)
	}
}

// file returns what workers get when the revision is carried out and no other change comes first.
func (k kept) file() roster.File {
	file := roster.File{Version: k.data.Version}
	for _, share := range k.data.Workers {
		if share.Version > 0 {
			file.Workers = append(file.Workers, roster.FileEntry{Worker: share.Worker, Version: share.Version, Jobs: share.Jobs})
		}
	}
	return file
}

func (k kept) ledger() roster.Ledger {
	ledger := roster.Ledger{}
	for _, share := range k.data.Workers {
		ledger[share.Worker] = roster.LedgerEntry{Ordinal: share.Ordinal}
	}
	return ledger
}

// editions returns the lists that each worker got from the revisions starting with a number, and then from the config, oldest first.
func (w world) editions(from int64) []assign.Record {
	index, records := map[string]int{}, []assign.Record{}
	add := func(worker string, ordinal int, version int64, jobs []string) {
		at, known := index[worker]
		if !known {
			at = len(records)
			index[worker] = at
			records = append(records, assign.Record{Worker: worker, Ordinal: ordinal})
		}
		records[at] = records[at].WithList(version, jobs)
	}
	for _, revision := range w.history {
		if revision.number >= from {
			for _, share := range revision.data.Workers {
				add(share.Worker, share.Ordinal, share.Version, share.Jobs)
			}
		}
	}
	for _, entry := range w.published.entries { // of a config that another writer has changed
		add(entry.Worker, w.published.ledger[entry.Worker].Ordinal, entry.Version, entry.Jobs)
	}
	return records
}

func revisionName(pool *v1alpha1.WorkerPool, number int64) string {
	return fmt.Sprintf("%s-%d", pool.Name, number)
}

// keep stores a revision.
func (r *reconciler) keep(ctx context.Context, pool *v1alpha1.WorkerPool, revision kept, memory *memory) error {
	data := revision.encoded
	if data == nil {
		var err error
		if data, err = revision.data.Encode(); err != nil {
			return err
		}
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
	revision.encoded, revision.altered = nil, !believeRevision(&revision.data)
	memory.kept = &revision
	return nil
}

// discard deletes a revision unless it was replaced.
func (r *reconciler) discard(ctx context.Context, pool *v1alpha1.WorkerPool, revision kept) error {
	object := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: revision.name}}
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &revision.uid})
	if ignorable(err) {
		return nil
	}
	return fmt.Errorf("discard revision %d: %w", revision.number, err)
}

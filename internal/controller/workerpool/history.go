package workerpool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	poolstate "github.com/swarm-io/swarm-operator/internal/pool/state"
	"github.com/swarm-io/swarm-operator/kit"
)

// listRevisions returns the revisions of a pool, from the cache or past it.
func (r *reconciler) listRevisions(ctx context.Context, pool *v1alpha1.WorkerPool, live bool) ([]appsv1.ControllerRevision, error) {
	if live {
		return poolstate.Revisions(ctx, r.apiReader, pool)
	}
	list := &appsv1.ControllerRevisionList{}
	err := kit.ListOwned(ctx, r.client, pool, list)
	return list.Items, err
}

// readHistory returns the stored revisions of a pool, by number. The newest one keeps its index. The lists of the others are read only if
// needed: for the revision that the pool is pinned to and, past the cache, for those from which a lost config is restored.
func (r *reconciler) readHistory(
	ctx context.Context, pool *v1alpha1.WorkerPool, state *localState, live bool,
) ([]plan.StoredRevision, error) {
	items, err := r.listRevisions(ctx, pool, live)
	if err != nil {
		return nil, err
	}
	return r.parseRevisions(ctx, pool, state, items, live)
}

// parseRevisions reads the revisions that are not in memory.
func (r *reconciler) parseRevisions(
	ctx context.Context, pool *v1alpha1.WorkerPool, state *localState, items []appsv1.ControllerRevision, live bool,
) (history []plan.StoredRevision, err error) {
	cached := state.newestRevision
	if cached != nil && !plan.IsPlausible(cached.Number) {
		cached = nil
	}
	items = unreadRevisions(items, cached)
	newest := int64(0)
	if len(items) > 0 {
		newest = items[len(items)-1].Revision
	}
	cachedIsNewest := cached != nil && cached.Number > newest
	if cachedIsNewest {
		newest = cached.Number
	}
	state.sanitizeStatus(pool, newest)
	reader := revisionReader{lock: r.revisionLock, state: state}
	for n := range items {
		number := items[n].Revision
		revision, err := reader.read(ctx, &items[n], number == newest || needsLists(pool, number, live))
		if err != nil {
			return nil, err
		}
		history = append(history, revision)
	}
	switch {
	case cachedIsNewest:
		cached.BuildIndex()
		return append(history, *cached), nil
	case len(history) > 0:
		state.newestRevision = &history[len(history)-1]
		state.newestRevision.BuildIndex()
	}
	return history, nil
}

// unreadRevisions returns the revisions to read, by number: those that are plausible and not in memory.
func unreadRevisions(items []appsv1.ControllerRevision, cached *plan.StoredRevision) []appsv1.ControllerRevision {
	items = slices.DeleteFunc(items, func(object appsv1.ControllerRevision) bool {
		return !plan.IsPlausible(object.Revision) || cached != nil && cached.UID == object.UID
	})
	slices.SortFunc(items, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return items
}

// needsLists reports whether the lists of a revision are needed even if it is not the newest.
func needsLists(pool *v1alpha1.WorkerPool, number int64, live bool) bool {
	return number == pool.Spec.RollbackTo || live && number >= pool.Status.ConvergedRevision
}

const (
	// maxHistorySize limits the total length of the revisions of a pool whose lists are needed at the same time.
	maxHistorySize = 64 << 20
	// maxUnlockedSize is the length up to which they need not wait for a turn. Parsed, they take several times as much memory, and any user
	// who may create ControllerRevisions can make them long at little cost.
	maxUnlockedSize = 4 << 20
)

// A revisionReader reads the revisions of a pool.
type revisionReader struct {
	lock      revisionLock
	state     *localState
	totalSize int // total length of those read with their lists
}

// read reads a revision, without its lists unless they are needed.
func (r *revisionReader) read(ctx context.Context, object *appsv1.ControllerRevision, withLists bool) (plan.StoredRevision, error) {
	raw, err := codec.DecompressRevision(object.Data.Raw)
	if err != nil {
		return plan.StoredRevision{}, kit.Terminal(fmt.Errorf("read ControllerRevision %q: %w", object.Name, err))
	}
	if withLists {
		r.totalSize += len(raw)
	}
	if r.totalSize > maxHistorySize {
		return plan.StoredRevision{},
			kit.Terminal(fmt.Errorf("the revisions of the pool have more than %d bytes: delete the ControllerRevisions that the operator has not made",
				maxHistorySize))
	}
	if max(r.totalSize, len(raw)) > maxUnlockedSize {
		if err := r.lock.acquire(ctx, r.state); err != nil {
			return plan.StoredRevision{}, err
		}
	}
	revision, err := plan.ParseRevision(object, raw)
	if err != nil {
		return revision, kit.Terminal(fmt.Errorf("read ControllerRevision %q: %w", object.Name, err))
	}
	if !withLists {
		revision.CompactLists()
	}
	return revision, nil
}

// revisionLock lets one reconcile at a time hold long revisions.
type revisionLock chan struct{}

func newRevisionLock() revisionLock { return make(revisionLock, 1) }

// acquire waits for the turn, which lasts until the end of the reconcile.
func (t revisionLock) acquire(ctx context.Context, state *localState) error {
	if state.holdsRevisionLock {
		return nil
	}
	select {
	case t <- struct{}{}:
		state.holdsRevisionLock = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to read revisions: %w", context.Cause(ctx))
	}
}

func (t revisionLock) release(state *localState) {
	if state.holdsRevisionLock {
		state.holdsRevisionLock = false
		<-t
	}
}

// storeRevision stores a revision.
func (r *reconciler) storeRevision(ctx context.Context, pool *v1alpha1.WorkerPool, revision plan.StoredRevision, state *localState) error {
	data := revision.Encoded
	if data == nil {
		var err error
		if data, err = revision.Data.Encode(); err != nil {
			return err
		}
	}
	object := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pool.Namespace, Name: plan.RevisionName(pool, revision.Number),
			Labels: map[string]string{v1alpha1.LabelPool: pool.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "WorkerPool", Name: pool.Name, UID: pool.UID, Controller: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: revision.Number,
	}
	if err := r.client.Create(ctx, object); err != nil {
		return fmt.Errorf("keep revision %d: %w", revision.Number, asConflict(err, object.Name))
	}
	revision.UID, revision.Name = object.UID, object.Name
	revision.Encoded, revision.Sanitized = nil, !plan.SanitizeRevision(&revision.Data)
	state.newestRevision = &revision
	return nil
}

// deleteRevision deletes a revision unless it was replaced.
func (r *reconciler) deleteRevision(ctx context.Context, pool *v1alpha1.WorkerPool, revision plan.StoredRevision) error {
	object := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: revision.Name}}
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &revision.UID})
	if isIgnorable(err) {
		return nil
	}
	return fmt.Errorf("discard revision %d: %w", revision.Number, err)
}

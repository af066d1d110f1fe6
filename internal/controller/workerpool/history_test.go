package workerpool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// storeRevisions returns a reconciler and a pool with revisions. Each gives w-0 a different job, and names other jobs of the given
// length.
func storeRevisions(t *testing.T, count, length int) (*reconciler, *v1alpha1.WorkerPool) {
	t.Helper()
	pool, server := perWorkerPool(), newStore(t)
	r := &reconciler{client: server, apiReader: server, revisionLock: newRevisionLock()}
	for n := 1; n <= count; n++ {
		data := codec.Revision{
			Version: int64(n), Workers: []codec.RevisionShare{{Worker: "w-0", Version: int64(n), Jobs: []string{fmt.Sprint("j", n)}}},
			Unassigned: []string{strings.Repeat("x", length)},
		}
		if err := r.storeRevision(t.Context(), pool, plan.StoredRevision{Number: int64(n), Data: data}, newLocalState("pool")); err != nil {
			t.Fatal(err)
		}
	}
	return r, pool
}

func readStoredRevisions(
	ctx context.Context, r *reconciler, pool *v1alpha1.WorkerPool, state *localState, live bool,
) ([]plan.StoredRevision, error) {
	items, err := r.listRevisions(context.WithoutCancel(ctx), pool, true)
	if err != nil {
		return nil, err
	}
	return r.parseRevisions(ctx, pool, state, items, live)
}

// revisionsWithLists returns the numbers of the revisions whose lists were read.
func revisionsWithLists(history []plan.StoredRevision) (numbers []int64) {
	for _, revision := range history {
		if len(revision.Data.Workers[0].Jobs) > 0 {
			numbers = append(numbers, revision.Number)
		}
	}
	return numbers
}

func TestListsOfRevisionsAreReadWhereTheyAreNeeded(t *testing.T) {
	for reason, c := range map[string]struct {
		live              bool
		converged, pinned int64
		want              []int64
	}{
		"the newest":                      {false, 3, 0, []int64{4}},
		"the one that the pool has":       {false, 3, 2, []int64{2, 4}},
		"those that workers may hold":     {true, 3, 0, []int64{3, 4}},
		"all, before the pool converged":  {true, 0, 0, []int64{1, 2, 3, 4}},
		"none beside those of the future": {true, 9, 0, []int64{4}},
	} {
		r, pool := storeRevisions(t, 4, 0)
		pool.Status.ConvergedRevision, pool.Spec.RollbackTo = c.converged, c.pinned
		history, err := readStoredRevisions(t.Context(), r, pool, newLocalState("pool"), c.live)
		if err != nil || len(history) != 4 || !slices.Equal(revisionsWithLists(history), c.want) {
			t.Errorf("%s: of %d revisions %v are whole, want %v; error %v", reason, len(history), revisionsWithLists(history), c.want, err)
		}
		for n, revision := range history {
			list, found := revision.ChecksumOf(0)
			if !found || list != checksumOfList(fmt.Sprint("j", n+1)) || revision.Data.Version != int64(n+1) {
				t.Errorf("%s: revision %d: %+v", reason, n+1, revision)
			}
		}
	}
}

func checksumOfList(jobs ...string) uint64 {
	sum, _ := plan.StoredRevision{Data: codec.Revision{Workers: []codec.RevisionShare{{Jobs: jobs}}}}.ChecksumOf(0)
	return sum
}

// A ControllerRevision of a few KiB unpacks to many MiB, and a user may make any number of them.
func TestLongRevisionsAreBoundedTogether(t *testing.T) {
	const each = 15 << 20
	r, pool := storeRevisions(t, maxHistorySize/each+1, each)
	state := newLocalState("pool")
	if _, err := readStoredRevisions(t.Context(), r, pool, state, false); err != nil {
		t.Errorf("one at a time: %v", err)
	}
	if !state.holdsRevisionLock {
		t.Error("they are read without a turn")
	}
	other, stop := context.WithCancel(t.Context())
	stop()
	if _, err := readStoredRevisions(other, r, pool, newLocalState("pool"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("at the same time: %v", err)
	}
	r.releaseRevision(state)
	if state.newestRevision != nil || state.holdsRevisionLock {
		t.Error("after the reconcile a long revision is still there")
	}
	if _, err := readStoredRevisions(t.Context(), r, pool, state, true); err == nil ||
		!strings.Contains(err.Error(), "have more than 67108864 bytes") {
		t.Errorf("all together: %v", err)
	}
}

// A revision that is not followed may come from a user. It is not kept in memory, for any pool.
func TestRevisionThatIsNotFollowedIsNotKept(t *testing.T) {
	e := newPublishedPool(t)
	if e.stateFor(e.getPool(t)).newestRevision == nil {
		t.Error("the newest revision is read at each reconcile")
	}
	pool := e.getPool(t)
	pool.Spec.Mode = v1alpha1.PoolPaused
	if err := e.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	e.states = map[client.ObjectKey]*localState{}
	e.reconcilePool(t)
	if e.stateFor(e.getPool(t)).newestRevision != nil {
		t.Error("a revision is kept")
	}
}

package workerpool

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// tenure is the leadership of one term.
type tenure int64

func (t tenure) Term() int64 { return int64(t) }

// store is an API server that keeps what was created, and may fail at a write.
type store struct {
	client.WithWatch
	created []*corev1.ConfigMap
	writes  int
	failAt  int // 0 for never
	listed  int
}

func newStore(t *testing.T, objects ...client.Object) *store {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &store{}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if config, is := object.(*corev1.ConfigMap); is {
				s.created = append(s.created, config.DeepCopy())
			}
			return s.write(func() error { return to.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return s.write(func() error { return to.Update(ctx, object, options...) })
		},
		List: func(ctx context.Context, from client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			s.listed++
			return from.List(ctx, list, options...)
		},
	}).Build()
	return s
}

func (s *store) write(do func() error) error {
	s.writes++
	if s.writes == s.failAt {
		return errRefused
	}
	return do()
}

func (s *store) config(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "sim", Name: name}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// perWorkerPool returns a pool whose workers have ConfigMaps of their own.
func perWorkerPool() *v1alpha1.WorkerPool {
	pool := newCluster(4, 2).pool
	perWorker(pool)
	return pool
}

// grant returns the sheet that gives a worker a job.
func grant(pool *v1alpha1.WorkerPool, worker string, version int64) *sheet {
	made := blank(pool, pool.ConfigNameOf(worker))
	made.file = roster.File{Version: version, Workers: []roster.FileEntry{{Worker: worker, Version: version, Jobs: []string{"j00"}}}}
	return made
}

// The API server may carry out a Create long after another leader has been elected, one that did not need that ConfigMap.
func TestLateCreateGrantsNothing(t *testing.T) {
	pool, server := perWorkerPool(), newStore(t)
	former := &reconciler{client: server, live: server, leadership: tenure(1)}
	if err := former.write(t.Context(), pool, grant(pool, "w-0", 7), newMemory("pool")); err != nil {
		t.Fatal(err)
	}
	if written := read(server.config(t, "w-config-w-0"), "config.yml"); written.torn || len(written.file.Workers) != 1 || written.file.Version != 7 {
		t.Errorf("stored %+v", written)
	}
	if len(server.created) != 1 || len(server.created[0].Data) > 0 {
		t.Fatalf("created %+v", server.created)
	}
	late := read(server.created[0], "config.yml")
	if late.torn || late.grants() || late.file.Version != 0 {
		t.Errorf("a late Create says %+v", late)
	}
	assertLateUpdateIsRefused(t, pool, server.created[0], late)
}

// assertLateUpdateIsRefused lets the next leader take over a ConfigMap. From then on the Update that would follow is refused.
func assertLateUpdateIsRefused(t *testing.T, pool *v1alpha1.WorkerPool, created *corev1.ConfigMap, late *sheet) {
	t.Helper()
	next := newStore(t, created)
	stale := created.DeepCopy()
	stale.ResourceVersion = next.config(t, stale.Name).ResourceVersion
	leader := leading(next, next, 2)
	found, refused, err := leader.published(t.Context(), pool, leader.remember(pool))
	if err != nil || refused != nil || found.torn || len(found.entries) > 0 {
		t.Fatalf("found %+v, %v, %v", found, refused, err)
	}
	if err := leader.secure(t.Context(), pool, &world{published: found}); err != nil {
		t.Fatal(err)
	}
	late.object, late.file = stale, grant(pool, "w-0", 7).file
	if err := (&reconciler{client: next, leadership: tenure(1)}).write(t.Context(), pool, late, newMemory("pool")); !apierrors.IsConflict(err) {
		t.Errorf("the former leader writes: %v", err)
	}
}

// A leader dies at any write while it restores a lost config. The remains must not look complete: workers still run the jobs of the
// missing parts.
func TestHalfRestoredConfigIsRestoredAgain(t *testing.T) {
	for _, layout := range []v1alpha1.ConfigLayout{v1alpha1.LayoutPerWorker, v1alpha1.LayoutShared} {
		pool := perWorkerPool()
		pool.Spec.Config.Layout = layout
		revision := kept{number: 1, data: roster.Revision{Version: 1, Workers: []roster.RevisionShare{
			{Worker: "w-0", Ordinal: 0, Version: 1, Jobs: []string{"j00", "j01"}}, {Worker: "w-1", Ordinal: 1, Version: 1, Jobs: []string{"j02", "j03"}},
		}}}
		for failAt := 1; ; failAt++ {
			server := newStore(t)
			if err := (&reconciler{client: server, leadership: tenure(1)}).keep(t.Context(), pool, revision, newMemory("pool")); err != nil {
				t.Fatal(err)
			}
			server.writes, server.failAt = 0, failAt
			failed := secureAs(t, server, pool, 1)
			server.failAt = 0
			if failed == nil {
				break
			}
			if err := secureAs(t, server, pool, 2); err != nil {
				t.Fatal(err)
			}
			found, _, err := (&reconciler{client: server, live: server, leadership: tenure(2)}).published(t.Context(), pool, newMemory("pool"))
			if err != nil {
				t.Fatal(err)
			}
			held := map[string][]string{}
			for _, record := range found.records(workload{kind: v1alpha1.WorkloadDeployment}) {
				held[record.Worker] = record.MayHold()
			}
			if !slices.Equal(held["w-0"], []string{"j00", "j01"}) || !slices.Equal(held["w-1"], []string{"j02", "j03"}) {
				t.Errorf("%s, write %d failed: workers may hold %v", layout, failAt, held)
			}
		}
	}
}

// leading returns a leader with an empty memory, a cache and an API server.
func leading(cache, server *store, term int64) *reconciler {
	return &reconciler{client: cache, live: server, leadership: tenure(term), memories: map[client.ObjectKey]*memory{}}
}

// secureAs runs the first step of a new leader.
func secureAs(t *testing.T, server *store, pool *v1alpha1.WorkerPool, term int64) error {
	t.Helper()
	r := leading(server, server, term)
	found, _, err := r.published(t.Context(), pool, r.remember(pool))
	if err != nil {
		t.Fatal(err)
	}
	return r.secure(t.Context(), pool, &world{published: found})
}

// A leader is elected while its cache lacks the last ConfigMap and revision of the former leader.
func TestTermBeginsWithWhatIsStored(t *testing.T) {
	for layout, want := range map[v1alpha1.ConfigLayout]int{v1alpha1.LayoutPerWorker: 2, v1alpha1.LayoutShared: 0} {
		pool := perWorkerPool()
		pool.Spec.Config.Layout = layout
		server := newStore(t)
		former := &reconciler{client: server, leadership: tenure(1)}
		kept := former.keep(t.Context(), pool, kept{number: 1, data: roster.Revision{Version: 1}}, newMemory("pool"))
		if err := errors.Join(kept, former.write(t.Context(), pool, grant(pool, "w-0", 1), newMemory("pool"))); err != nil {
			t.Fatal(err)
		}
		server.listed = 0
		r := leading(newStore(t), server, 2)
		memory := r.remember(pool)
		for n, live := range []bool{true, false, false} {
			live = live && layout == v1alpha1.LayoutPerWorker
			if r.unsecured(pool, memory) != live {
				t.Fatalf("%s: reconcile %d reads past the cache: %t", layout, n, !live)
			}
			if live {
				secureWhatIsStored(t, r, pool, server)
			}
		}
		if server.listed != want {
			t.Errorf("%s: %d lists past the cache, want %d", layout, server.listed, want)
		}
	}
}

// secureWhatIsStored lets a leader find what its cache lacks, and take it over.
func secureWhatIsStored(t *testing.T, r *reconciler, pool *v1alpha1.WorkerPool, server *store) {
	t.Helper()
	memory := r.remember(pool)
	found, refused, err := r.published(t.Context(), pool, memory)
	if err != nil || refused != nil || len(found.entries) != 1 || !slices.Equal(found.entries[0].Jobs, []string{"j00"}) {
		t.Fatalf("found %+v, %v, %v", found.entries, refused, err)
	}
	history, err := r.history(t.Context(), pool, memory, true)
	if err != nil || len(history) != 1 {
		t.Fatalf("history %v, %v", history, err)
	}
	r.client = server
	if err := r.secure(t.Context(), pool, &world{published: found, history: history}); err != nil {
		t.Fatal(err)
	}
}

// A lost config is rebuilt from the stored revisions, not from those in the cache.
func TestLostConfigIsRebuiltFromStoredRevisions(t *testing.T) {
	pool, server := perWorkerPool(), newStore(t)
	pool.Spec.Config.Layout = v1alpha1.LayoutShared
	newest := kept{number: 2, data: roster.Revision{Version: 3, Workers: []roster.RevisionShare{{Worker: "w-0", Version: 3, Jobs: []string{"j00"}}}}}
	if err := (&reconciler{client: server, leadership: tenure(1)}).keep(t.Context(), pool, newest, newMemory("pool")); err != nil {
		t.Fatal(err)
	}
	if err := secureAs(t, server, pool, 2); err != nil { // with an empty history
		t.Fatal(err)
	}
	restored := read(server.config(t, pool.ConfigName()), "config.yml")
	if records := restored.ledger.Records(restored.file); len(records) != 1 || !slices.Equal(records[0].MayHold(), []string{"j00"}) {
		t.Errorf("restored %+v", restored.file)
	}
}

// Revisions of another pool that had the same name do not count.
func TestRevisionsOfAnotherPoolAreNotRead(t *testing.T) {
	pool, server := perWorkerPool(), newStore(t, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "pool-9", Labels: map[string]string{v1alpha1.LabelPool: "pool"}}, Revision: 9,
	})
	found, err := (&reconciler{live: server}).history(t.Context(), pool, newMemory("pool"), true)
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestSheetGrants(t *testing.T) {
	for reason, c := range map[string]struct {
		sheet sheet
		want  bool
	}{
		"nothing":         {sheet{}, false},
		"an empty list":   {sheet{file: roster.File{Workers: []roster.FileEntry{{Worker: "w-0"}}}, ledger: roster.Ledger{"w-0": {}}}, false},
		"a job":           {sheet{file: roster.File{Workers: []roster.FileEntry{{Worker: "w-0", Jobs: []string{"a"}}}}}, true},
		"an earlier list": {sheet{ledger: roster.Ledger{"w-0": {Earlier: []assign.ListVersion{{Version: 1, Jobs: []string{"a"}}}}}}, true},
	} {
		if got := c.sheet.grants(); got != c.want {
			t.Errorf("%s: %t", reason, got)
		}
	}
}

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
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// fixedTerm is the leadership of one term.
type fixedTerm int64

func (t fixedTerm) Term() int64 { return int64(t) }

// fakeStore is an API server that keeps what was created, and may fail at a write.
type fakeStore struct {
	client.WithWatch
	created []*corev1.ConfigMap
	writes  int
	failAt  int // 0 for never
	listed  int
}

func newStore(t *testing.T, objects ...client.Object) *fakeStore {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &fakeStore{}
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

func (s *fakeStore) write(do func() error) error {
	s.writes++
	if s.writes == s.failAt {
		return errRefused
	}
	return do()
}

func (s *fakeStore) getConfigMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "sim", Name: name}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// perWorkerPool returns a pool whose workers have ConfigMaps of their own.
func perWorkerPool() *v1alpha1.WorkerPool {
	pool := newFakeCluster(4, 2).pool
	withPerWorkerLayout(pool)
	return pool
}

// grantingConfigMap returns the ConfigMap that gives a worker a job.
func grantingConfigMap(pool *v1alpha1.WorkerPool, worker string, version int64) *plan.ConfigMap {
	cm := plan.NewConfigMap(pool, pool.ConfigNameOf(worker))
	cm.File = codec.File{Version: version, Workers: []codec.FileEntry{{Worker: worker, Version: version, Jobs: []string{"j00"}}}}
	return cm
}

// The API server may carry out a Create long after another leader has been elected, one that did not need that ConfigMap.
func TestLateCreateGrantsNothing(t *testing.T) {
	pool, server := perWorkerPool(), newStore(t)
	former := &reconciler{client: server, apiReader: server, leadership: fixedTerm(1)}
	if err := former.writeConfigMap(t.Context(), pool, grantingConfigMap(pool, "w-0", 7), newLocalState("pool")); err != nil {
		t.Fatal(err)
	}
	if written := plan.ParseConfigMap(server.getConfigMap(t, "w-config-w-0"), "config.yml"); written.Modified || len(written.File.Workers) != 1 ||
		written.File.Version != 7 {
		t.Errorf("stored %+v", written)
	}
	if len(server.created) != 1 || len(server.created[0].Data) > 0 {
		t.Fatalf("created %+v", server.created)
	}
	late := plan.ParseConfigMap(server.created[0], "config.yml")
	if late.Modified || late.GrantsJobs() || late.File.Version != 0 {
		t.Errorf("a late Create says %+v", late)
	}
	assertLateUpdateIsRefused(t, pool, server.created[0], late)
}

// assertLateUpdateIsRefused lets the next leader take over a ConfigMap. From then on the Update that would follow is refused.
func assertLateUpdateIsRefused(t *testing.T, pool *v1alpha1.WorkerPool, created *corev1.ConfigMap, late *plan.ConfigMap) {
	t.Helper()
	next := newStore(t, created)
	stale := created.DeepCopy()
	stale.ResourceVersion = next.getConfigMap(t, stale.Name).ResourceVersion
	leader := newLeadingReconciler(next, next, 2)
	config, refused, err := leader.readPublished(t.Context(), pool, leader.stateFor(pool))
	if err != nil || refused != nil || config.Modified || len(config.Entries) > 0 {
		t.Fatalf("found %+v, %v, %v", config, refused, err)
	}
	if err := leader.ensureConfig(t.Context(), pool, &plan.Snapshot{Published: config}); err != nil {
		t.Fatal(err)
	}
	late.Object, late.File = stale, grantingConfigMap(pool, "w-0", 7).File
	if err := (&reconciler{client: next, leadership: fixedTerm(1)}).writeConfigMap(t.Context(), pool, late,
		newLocalState("pool")); !apierrors.IsConflict(err) {
		t.Errorf("the former leader writes: %v", err)
	}
}

// A leader dies at any write while it restores a lost config. The remains must not look complete: workers still run the jobs of the
// missing parts.
func TestHalfRestoredConfigIsRestoredAgain(t *testing.T) {
	for _, layout := range []v1alpha1.ConfigLayout{v1alpha1.LayoutPerWorker, v1alpha1.LayoutShared} {
		pool := perWorkerPool()
		pool.Spec.Config.Layout = layout
		revision := plan.StoredRevision{Number: 1, Data: codec.Revision{Version: 1, Workers: []codec.RevisionShare{
			{Worker: "w-0", Ordinal: 0, Version: 1, Jobs: []string{"j00", "j01"}},
			{Worker: "w-1", Ordinal: 1, Version: 1, Jobs: []string{"j02", "j03"}},
		}}}
		for failAt := 1; ; failAt++ {
			server := newStore(t)
			if err := (&reconciler{client: server, leadership: fixedTerm(1)}).storeRevision(t.Context(), pool, revision,
				newLocalState("pool")); err != nil {
				t.Fatal(err)
			}
			server.writes, server.failAt = 0, failAt
			failed := ensureConfigAs(t, server, pool, 1)
			server.failAt = 0
			if failed == nil {
				break
			}
			if err := ensureConfigAs(t, server, pool, 2); err != nil {
				t.Fatal(err)
			}
			config, _, err := (&reconciler{client: server, apiReader: server, leadership: fixedTerm(2)}).readPublished(t.Context(), pool,
				newLocalState("pool"))
			if err != nil {
				t.Fatal(err)
			}
			heldJobs := map[string][]string{}
			for _, record := range config.Records(plan.Workload{Kind: v1alpha1.WorkloadDeployment}) {
				heldJobs[record.Worker] = record.MayHold()
			}
			if !slices.Equal(heldJobs["w-0"], []string{"j00", "j01"}) || !slices.Equal(heldJobs["w-1"], []string{"j02", "j03"}) {
				t.Errorf("%s, write %d failed: workers may hold %v", layout, failAt, heldJobs)
			}
		}
	}
}

// newLeadingReconciler returns a leader with an empty memory, a cache and an API server.
func newLeadingReconciler(cache, server *fakeStore, term int64) *reconciler {
	return &reconciler{client: cache, apiReader: server, leadership: fixedTerm(term), states: map[client.ObjectKey]*localState{}}
}

// ensureConfigAs runs the first step of a new leader.
func ensureConfigAs(t *testing.T, server *fakeStore, pool *v1alpha1.WorkerPool, term int64) error {
	t.Helper()
	r := newLeadingReconciler(server, server, term)
	config, _, err := r.readPublished(t.Context(), pool, r.stateFor(pool))
	if err != nil {
		t.Fatal(err)
	}
	return r.ensureConfig(t.Context(), pool, &plan.Snapshot{Published: config})
}

// A leader is elected while its cache lacks the last ConfigMap and revision of the former leader.
func TestTermBeginsWithStoredObjects(t *testing.T) {
	for layout, want := range map[v1alpha1.ConfigLayout]int{v1alpha1.LayoutPerWorker: 2, v1alpha1.LayoutShared: 0} {
		pool := perWorkerPool()
		pool.Spec.Config.Layout = layout
		server := newStore(t)
		former := &reconciler{client: server, leadership: fixedTerm(1)}
		kept := former.storeRevision(t.Context(), pool, plan.StoredRevision{Number: 1, Data: codec.Revision{Version: 1}}, newLocalState("pool"))
		if err := errors.Join(kept, former.writeConfigMap(t.Context(), pool, grantingConfigMap(pool, "w-0", 1),
			newLocalState("pool"))); err != nil {
			t.Fatal(err)
		}
		server.listed = 0
		r := newLeadingReconciler(newStore(t), server, 2)
		state := r.stateFor(pool)
		for n, live := range []bool{true, false, false} {
			live = live && layout == v1alpha1.LayoutPerWorker
			if r.mayLackConfigMaps(pool, state) != live {
				t.Fatalf("%s: reconcile %d reads past the cache: %t", layout, n, !live)
			}
			if live {
				ensureStoredConfig(t, r, pool, server)
			}
		}
		if server.listed != want {
			t.Errorf("%s: %d lists past the cache, want %d", layout, server.listed, want)
		}
	}
}

// ensureStoredConfig lets a leader find what its cache lacks, and take it over.
func ensureStoredConfig(t *testing.T, r *reconciler, pool *v1alpha1.WorkerPool, server *fakeStore) {
	t.Helper()
	state := r.stateFor(pool)
	config, refused, err := r.readPublished(t.Context(), pool, state)
	if err != nil || refused != nil || len(config.Entries) != 1 || !slices.Equal(config.Entries[0].Jobs, []string{"j00"}) {
		t.Fatalf("found %+v, %v, %v", config.Entries, refused, err)
	}
	history, err := r.readHistory(t.Context(), pool, state, true)
	if err != nil || len(history) != 1 {
		t.Fatalf("history %v, %v", history, err)
	}
	r.client = server
	if err := r.ensureConfig(t.Context(), pool, &plan.Snapshot{Published: config, History: history}); err != nil {
		t.Fatal(err)
	}
}

// A lost config is rebuilt from the stored revisions, not from those in the cache.
func TestLostConfigIsRebuiltFromStoredRevisions(t *testing.T) {
	pool, server := perWorkerPool(), newStore(t)
	pool.Spec.Config.Layout = v1alpha1.LayoutShared
	newest := plan.StoredRevision{Number: 2, Data: codec.Revision{Version: 3,
		Workers: []codec.RevisionShare{{Worker: "w-0", Version: 3, Jobs: []string{"j00"}}}}}
	if err := (&reconciler{client: server, leadership: fixedTerm(1)}).storeRevision(t.Context(), pool, newest,
		newLocalState("pool")); err != nil {
		t.Fatal(err)
	}
	if err := ensureConfigAs(t, server, pool, 2); err != nil { // with an empty history
		t.Fatal(err)
	}
	restored := plan.ParseConfigMap(server.getConfigMap(t, pool.ConfigName()), "config.yml")
	if records := restored.Ledger.Records(restored.File); len(records) != 1 || !slices.Equal(records[0].MayHold(), []string{"j00"}) {
		t.Errorf("restored %+v", restored.File)
	}
}

// Revisions of another pool that had the same name do not count.
func TestRevisionsOfAnotherPoolAreNotRead(t *testing.T) {
	pool, server := perWorkerPool(), newStore(t, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "pool-9", Labels: map[string]string{v1alpha1.LabelPool: "pool"}}, Revision: 9,
	})
	history, err := (&reconciler{apiReader: server}).readHistory(t.Context(), pool, newLocalState("pool"), true)
	if err != nil || len(history) > 0 {
		t.Errorf("found %v, %v", history, err)
	}
}

func TestConfigMapGrantsJobs(t *testing.T) {
	for reason, c := range map[string]struct {
		sheet plan.ConfigMap
		want  bool
	}{
		"nothing":         {plan.ConfigMap{}, false},
		"an empty list":   {plan.ConfigMap{File: codec.File{Workers: []codec.FileEntry{{Worker: "w-0"}}}, Ledger: codec.Ledger{"w-0": {}}}, false},
		"a job":           {plan.ConfigMap{File: codec.File{Workers: []codec.FileEntry{{Worker: "w-0", Jobs: []string{"a"}}}}}, true},
		"an earlier list": {plan.ConfigMap{Ledger: codec.Ledger{"w-0": {Earlier: []assign.ListVersion{{Version: 1, Jobs: []string{"a"}}}}}}, true},
	} {
		if got := c.sheet.GrantsJobs(); got != c.want {
			t.Errorf("%s: %t", reason, got)
		}
	}
}

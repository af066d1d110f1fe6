package workerpool

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

var (
	errRefused = errors.New("refused")
	errMissing = apierrors.NewNotFound(corev1.Resource("pods"), "w")
	errAnother = apierrors.NewConflict(corev1.Resource("pods"), "w", errors.New("another UID"))
	errBudget  = apierrors.NewTooManyRequests("the budget does not allow it", 10)
)

// recordingClient is a cluster that records writes in order, and responds by the name of the object.
type recordingClient struct {
	client.Client
	errs  map[string]error
	wrote []string
	uids  []types.UID // of deletions and evictions
}

func (w *recordingClient) record(what string, object client.Object) error {
	w.wrote = append(w.wrote, what+" "+object.GetName())
	return w.errs[object.GetName()]
}

func (w *recordingClient) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return w.record("create", object)
}

func (w *recordingClient) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return w.record("patch", object)
}

func (w *recordingClient) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	w.uids = append(w.uids, *(&client.DeleteOptions{}).ApplyOptions(options).Preconditions.UID)
	return w.record("delete", object)
}

func (w *recordingClient) SubResource(string) client.SubResourceClient {
	return evictionClient{writer: w}
}

type evictionClient struct {
	client.SubResourceClient
	writer *recordingClient
}

func (e evictionClient) Create(_ context.Context, object, body client.Object, _ ...client.SubResourceCreateOption) error {
	e.writer.uids = append(e.writer.uids, *body.(*policyv1.Eviction).DeleteOptions.Preconditions.UID)
	return e.writer.record("evict", object)
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: name, UID: types.UID("uid-" + name)}}
}

func TestEvictionsNameTheirPodAndRespectBudgets(t *testing.T) {
	recorder := &recordingClient{errs: map[string]error{"w-1": errBudget, "w-2": errMissing, "w-3": errAnother, "w-5": errRefused}}
	var evictions []eviction
	for _, name := range []string{"w-0", "w-1", "w-2", "w-3", "w-4", "w-5", "w-6"} {
		evictions = append(evictions, eviction{pod: podNamed(name)})
	}
	gone, err := (&reconciler{client: recorder}).evictPods(t.Context(), evictions)
	if !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if len(gone) != 2 || gone[0].pod.Name != "w-0" || gone[1].pod.Name != "w-4" {
		t.Errorf("gone %v: only the first and the fifth go", gone)
	}
	if len(recorder.uids) != 6 || recorder.uids[0] != "uid-w-0" {
		t.Errorf("by UID %v: no pod is evicted after a failure", recorder.uids)
	}
}

func TestRevisionsAreDiscardedByTheirUID(t *testing.T) {
	for reason, c := range map[string]struct {
		answer error
		fails  bool
	}{
		"deleted": {nil, false}, "already gone": {errMissing, false}, "another of that name": {errAnother, false}, "refused": {errRefused, true},
	} {
		recorder := &recordingClient{errs: map[string]error{"pool-3": c.answer}}
		err := (&reconciler{client: recorder}).deleteRevision(t.Context(), &v1alpha1.WorkerPool{},
			storedRevision{number: 3, name: "pool-3", uid: "uid-3"})
		if (err != nil) != c.fails || !slices.Equal(recorder.uids, []types.UID{"uid-3"}) {
			t.Errorf("%s: %v, by UID %v", reason, err, recorder.uids)
		}
	}
}

// A leader killed between two writes must not have published anything that is in no revision.
func TestNothingFollowsARevisionThatIsNotKept(t *testing.T) {
	pool := newFakeCluster(1, 1).pool
	whole := func() *Plan {
		return &Plan{
			NewRevision: &storedRevision{number: 1, data: codec.Revision{Version: 1}}, Nudges: []nudge{{pod: podNamed("w-0")}},
			ObsoleteRevisions: []storedRevision{{number: 0, name: "pool-0"}}, Evictions: []eviction{{pod: podNamed("w-1")}},
		}
	}
	for failing, want := range map[string]string{
		"pool-1": "create pool-1",
		"w-0":    "create pool-1, patch w-0",
		"pool-0": "create pool-1, patch w-0, delete pool-0",
		"":       "create pool-1, patch w-0, delete pool-0, evict w-1",
	} {
		recorder := &recordingClient{errs: map[string]error{failing: errRefused}}
		state := newLocalState("pool")
		err := (&reconciler{client: recorder}).apply(t.Context(), pool, whole(), state)
		if got := strings.Join(recorder.wrote, ", "); got != want || (err == nil) != (failing == "") {
			t.Errorf("%q fails: wrote %q, want %q; %v", failing, got, want, err)
		}
		if remembered := state.newestRevision != nil; remembered != (failing != "pool-1") {
			t.Errorf("%q fails: the revision is remembered: %t", failing, remembered)
		}
	}
}

func TestRevisionThatIsThereAlreadyIsAConflict(t *testing.T) {
	for reason, c := range map[string]struct {
		err  error
		want bool
	}{
		"exists": {apierrors.NewAlreadyExists(corev1.Resource("configmaps"), "c"), true}, "gone": {errMissing, true}, "refused": {errRefused,
			false},
	} {
		if got := apierrors.IsConflict(asConflict(c.err, "c")); got != c.want {
			t.Errorf("%s: a conflict: %t", reason, got)
		}
	}
}

// scalingPlanner returns a planner of a pool whose StatefulSet or Deployment has three pods.
func scalingPlanner(kind v1alpha1.WorkloadKind, replicas int32, records ...assign.Record) *planner {
	pool := &v1alpha1.WorkerPool{}
	pool.Spec.Replicas = &replicas
	return &planner{pool: pool, snapshot: poolSnapshot{workload: poolWorkload{object: &appsv1.StatefulSet{}, kind: kind, replicas: 3}},
		records: records}
}

func recordOf(ordinal int, jobs ...string) assign.Record {
	return assign.Record{Ordinal: ordinal, Lists: []assign.ListVersion{{Version: 1, Jobs: jobs}}}
}

func TestPoolIsNotScaledBelowWorkersThatHoldJobs(t *testing.T) {
	// The job of the third worker was revoked, and it has not confirmed that.
	revoked := assign.Record{Ordinal: 2, PodUID: "u", Lists: []assign.ListVersion{{Version: 1, Jobs: []string{"c"}}, {Version: 2}}}
	for reason, c := range map[string]struct {
		draft *planner
		want  int32 // 0: not scaled
	}{
		"more at once":            {scalingPlanner(v1alpha1.WorkloadStatefulSet, 5, recordOf(0, "a")), 5},
		"as many as there are":    {scalingPlanner(v1alpha1.WorkloadStatefulSet, 3, recordOf(2, "c")), 0},
		"fewer, all of them free": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1), recordOf(2)), 1},
		"fewer, the last one holds": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1), recordOf(2, "c")),
			0},
		"fewer, the second one holds": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1, "b"), recordOf(2)),
			2},
		"fewer, the last one may hold": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1), revoked), 0},
		"a Deployment waits for all": {scalingPlanner(v1alpha1.WorkloadDeployment, 1, recordOf(0, "a"), recordOf(1, "b"), recordOf(2)),
			0},
		"a Deployment whose rest is free": {scalingPlanner(v1alpha1.WorkloadDeployment, 1, recordOf(0, "a"), recordOf(1), recordOf(2)), 1},
		"the number of workers is not given": {&planner{pool: &v1alpha1.WorkerPool{},
			snapshot: poolSnapshot{workload: poolWorkload{replicas: 3}}}, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			c.draft.planScale()
			if got := c.draft.ScaleTo; (got == nil) != (c.want == 0) || got != nil && *got != c.want {
				t.Errorf("got %v, want %d", got, c.want)
			}
		})
	}
}

func TestPoolThatIsPausedOrPublishesIsNotScaledIn(t *testing.T) {
	for reason, change := range map[string]func(*planner){
		"paused":       func(d *planner) { d.Paused = true },
		"publishing":   func(d *planner) { d.ConfigMaps = []*configMap{{}} },
		"new revision": func(d *planner) { d.NewRevision = &storedRevision{} },
	} {
		d := scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"))
		change(d)
		if d.planScale(); d.ScaleTo != nil {
			t.Errorf("%s: scaled to %d", reason, *d.ScaleTo)
		}
	}
}

func TestRevisionsThatMayBeNeededAreKept(t *testing.T) {
	for reason, c := range map[string]struct {
		limit                 int32
		converged, rollbackTo int64
		want                  []int64
	}{
		"those above the limit":                 {2, 6, 0, []int64{1, 2, 3}},
		"none that a worker may still hold":     {2, 2, 0, []int64{1}},
		"none before anything has converged":    {0, 0, 0, nil},
		"not the one that is to be rolled back": {2, 6, 2, []int64{1, 3}},
		"all fit":                               {9, 6, 0, nil},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := &v1alpha1.WorkerPool{}
			pool.Spec.RevisionHistoryLimit, pool.Spec.RollbackTo, pool.Status.ConvergedRevision = c.limit, c.rollbackTo, c.converged
			d := &planner{pool: pool}
			for number := range int64(6) {
				d.snapshot.history = append(d.snapshot.history, storedRevision{number: number + 1})
			}
			d.planCleanup()
			var got []int64
			for _, revision := range d.ObsoleteRevisions {
				got = append(got, revision.number)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("discards %v, want %v", got, c.want)
			}
		})
	}
}

// addOverdueWorker adds a ready worker that has not acknowledged its list in time.
func addOverdueWorker(d *planner, name string, ordinal int, ready bool) {
	pod := podNamed(name)
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	d.podsByName[name] = pod
	d.memberSet.members = append(d.memberSet.members, member{Worker: assign.Worker{Name: name, Ordinal: ordinal}, pod: pod, ready: ready,
		wanted: true})
	d.records = append(d.records, assign.Record{Worker: name, Ordinal: ordinal, PodUID: string(pod.UID), Overdue: true,
		Lists: []assign.ListVersion{{Version: 2, Jobs: []string{"a"}}}})
}

func TestNoMorePodsAreReplacedAtOnceThanMayBeUnavailable(t *testing.T) {
	for reason, c := range map[string]struct {
		most   int32
		ready  []bool
		change func(*planner)
		want   string
	}{
		"one of three":               {1, []bool{true, true, true}, nil, "w-0"},
		"two of three":               {2, []bool{true, true, true}, nil, "w-0 w-1"},
		"one is away already":        {1, []bool{true, false, true}, nil, "w-1"},
		"paused":                     {3, []bool{true, true}, func(d *planner) { d.Paused = true }, ""},
		"something is published now": {3, []bool{true, true}, func(d *planner) { d.ConfigMaps = []*configMap{{}} }, ""},
		"the policy does not restart": {3, []bool{true, true}, func(d *planner) { d.pool.Spec.Refresh.Policy = v1alpha1.RefreshHotReload },
			""},
		"a pod that goes is not evicted": {1, []bool{true, false}, func(d *planner) { d.podsByName["w-1"].DeletionTimestamp = new(metav1.Now()) },
			""},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := newFakeCluster(1, 1).pool
			pool.Spec.Refresh.MaxUnavailable = c.most
			d := &planner{pool: pool, clocks: &clocks{}, podsByName: map[string]*corev1.Pod{}}
			for n, ready := range c.ready {
				addOverdueWorker(d, "w-"+string(rune('0'+n)), n, ready)
			}
			if c.change != nil {
				c.change(d)
			}
			d.planEvictions()
			var evicted []string
			for _, one := range d.Evictions {
				evicted = append(evicted, one.pod.Name)
			}
			if got := strings.Join(evicted, " "); got != c.want {
				t.Errorf("evicts %q, want %q", got, c.want)
			}
		})
	}
}

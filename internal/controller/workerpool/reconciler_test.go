package workerpool

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// newPublishedPool reconciles a pool with two workers until its lists are published.
func newPublishedPool(t *testing.T, more ...client.Object) *environment {
	t.Helper()
	e := newEnvironment(t, append(append(newWorkers(2), newPool()), more...)...)
	e.reconcilePool(t)
	e.reconcilePool(t)
	if got := e.jobsOf(t); len(got["w-0"]) != 2 || len(got["w-1"]) != 2 {
		t.Fatalf("published %v", got)
	}
	e.writes = nil
	return e
}

func TestPoolPublishesARevisionAndNudgesThePods(t *testing.T) {
	e := newEnvironment(t, append(newWorkers(2), newPool())...)
	e.reconcilePool(t)
	e.reconcilePool(t)
	want := []string{
		"create ConfigMap w-config", "create ControllerRevision pool-1", "update ConfigMap w-config",
		"patch PartialObjectMetadata w-0", "patch PartialObjectMetadata w-1",
	}
	slices.Sort(e.writes[3:]) // pods are patched in parallel
	if !slices.Equal(e.writes, want) {
		t.Errorf("wrote %q, want %q", e.writes, want)
	}
	pool := e.getPool(t)
	if pool.Status.Revision != 1 || pool.Status.Version != 1 || pool.Status.Jobs != 4 || pool.Status.Size != 2 ||
		pool.Status.ExpectedSize != 2 {
		t.Errorf("status %+v", pool.Status)
	}
	if got := conditionOf(pool, v1alpha1.ConditionConverged); got != "False Converging" {
		t.Errorf("Converged is %q before anyone can have loaded its list", got)
	}
	pod := &corev1.Pod{}
	if e.get(t, "w-1", pod); pod.Annotations[v1alpha1.AnnotationConfigVersion] != "1" {
		t.Errorf("annotations of w-1: %v", pod.Annotations)
	}
	revision := &appsv1.ControllerRevision{}
	if e.get(t, "pool-1", revision); !metav1.IsControlledBy(revision, pool) || revision.Labels[v1alpha1.LabelPool] != "pool" {
		t.Errorf("the revision is not the pool's: %+v", revision.ObjectMeta)
	}
}

// The running assignment does not change while anything it depends on cannot be read or belongs to another owner.
func TestNothingIsWrittenOnWhatCannotBeRead(t *testing.T) {
	kinds := map[string]string{
		"the source of jobs": "*v1.ConfigMap", "revisions": "*v1.ControllerRevisionList", "other pools": "*v1alpha1.WorkerPoolList",
		"the workload": "*v1.StatefulSet", "pods": "*v1.PodList",
	}
	for reason, kind := range kinds {
		t.Run(reason, func(t *testing.T) {
			pool := newPool()
			pool.Spec.JobsFrom = []v1alpha1.JobSource{{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: "jobs", Key: "list"}}}
			jobs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "jobs"}, Data: map[string]string{"list": "- extra\n"}}
			e := failingEnvironment(t, func(of string) error {
				if of == kind {
					return errRefused
				}
				return nil
			}, append(newWorkers(2), pool, jobs)...)
			if _, err := e.Reconcile(t.Context(), e.getPool(t)); !errors.Is(err, errRefused) || len(e.writes) > 0 {
				t.Errorf("got %v, wrote %q", err, e.writes)
			}
		})
	}
}

func TestConfigMapsOfWorkersThatCannotBeListedAreNotReplaced(t *testing.T) {
	pool := newPool()
	withPerWorkerLayout(pool)
	e := failingEnvironment(t, func(of string) error {
		if of == "*v1.ConfigMapList" {
			return errRefused
		}
		return nil
	}, append(newWorkers(2), pool)...)
	if _, err := e.Reconcile(t.Context(), e.getPool(t)); !errors.Is(err, errRefused) || len(e.writes) > 0 {
		t.Errorf("got %v, wrote %q", err, e.writes)
	}
}

func TestStatusThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	e := newEnvironment(t, newPool()) // without a workload there is nothing else to write
	e.refuseStatus = errRefused
	if _, err := e.Reconcile(t.Context(), e.getPool(t)); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNotThePoolsIsLeftAlone(t *testing.T) {
	foreign := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "w-config"}, Data: data}
	}
	kept := foreign(map[string]string{"other": "data"})
	kept.OwnerReferences = []metav1.OwnerReference{{Kind: "Swarm", Name: "ants", UID: "uid-ants", Controller: new(true)}}
	shared := foreign(map[string]string{"other": "data"})
	shared.Labels = map[string]string{v1alpha1.LabelPool: "neighbour"}
	neighbour := newPool()
	neighbour.Name, neighbour.UID, neighbour.Spec.Workers.Name = "neighbour", "neighbour", "other"
	scaled := newWorkers(2)
	scaled[0].SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Swarm", Name: "ants",
		UID: "uid-ants", Controller: new(true)}})
	older := newPool()
	older.Name, older.UID, older.CreationTimestamp = "older", "older", metav1.NewTime(time.Unix(1, 0))
	for reason, c := range map[string]struct {
		objects []client.Object
		change  func(*v1alpha1.WorkerPool)
		want    string // the condition Ready; "" if the pool is processed
	}{
		"ConfigMap with data of another":   {append(newWorkers(2), foreign(map[string]string{"other": "data"})), nil, "False ConfigNotOurs"},
		"empty ConfigMap":                  {append(newWorkers(2), foreign(nil)), nil, ""},
		"ConfigMap that is to be adopted":  {append(newWorkers(2), foreign(map[string]string{"other": "data"})), withAdopt, ""},
		"adopted ConfigMap of a Swarm":     {append(newWorkers(2), kept), withAdopt, "False ConfigNotOurs"},
		"adopted ConfigMap of a pool":      {append(newWorkers(2), shared, neighbour), withAdopt, "False ConfigNotOurs"},
		"adopted ConfigMap, pool is gone":  {append(newWorkers(2), shared), withAdopt, ""},
		"scaled workload of a Swarm":       {scaled, withReplicas, "False WorkloadTaken"},
		"workload of a Swarm, not scaled":  {scaled, nil, ""},
		"no workload":                      {nil, nil, "False WorkloadNotFound"},
		"workload that has an older pool":  {append(newWorkers(2), older), nil, "False WorkloadTaken"},
		"layout that is not supported":     {newWorkers(2), withPerWorkerLayout, "False NotSupported"},
		"workload that is too large":       {markTooLarge(newWorkers(2)), nil, "False NotSupported"},
		"all is there, and is the pool's":  {newWorkers(2), nil, ""},
		"source of jobs that is not there": {newWorkers(2), withMissingJobs, "False JobsNotFound"},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := newPool()
			pool.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
			if c.change != nil {
				c.change(pool)
			}
			e := newEnvironment(t, append(slices.Clone(c.objects), pool)...)
			e.perWorkerUnsupported = "this operator has no webhook"
			e.reconcilePool(t)
			ready := conditionOf(e.reconcilePool(t), v1alpha1.ConditionReady)
			works := e.hasWritten("create ControllerRevision")
			if works != (c.want == "") || c.want != "" && ready != c.want {
				t.Errorf("Ready is %q, want %q; wrote %q", ready, c.want, e.writes)
			}
			if c.want == "False ConfigNotOurs" && len(e.writes) > 0 {
				t.Errorf("wrote %q", e.writes)
			}
		})
	}
}

// markTooLarge makes the cache keep so little of the workload that its selector is missing.
func markTooLarge(workers []client.Object) []client.Object {
	workers[0].SetAnnotations(map[string]string{v1alpha1.AnnotationTooLarge: "true"})
	workers[0].(*appsv1.StatefulSet).Spec.Selector = nil
	return workers
}

func withAdopt(pool *v1alpha1.WorkerPool)    { pool.Spec.Config.Adopt = v1alpha1.AdoptAlways }
func withReplicas(pool *v1alpha1.WorkerPool) { pool.Spec.Replicas = new(int32(5)) }
func withPerWorkerLayout(pool *v1alpha1.WorkerPool) {
	pool.Spec.Config.Layout = v1alpha1.LayoutPerWorker
}
func withMissingJobs(pool *v1alpha1.WorkerPool) {
	pool.Spec.JobsFrom = []v1alpha1.JobSource{{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: "gone", Key: "list"}}}
}

func TestAdoptedConfigMapKeepsItsOtherKeys(t *testing.T) {
	pool := newPool()
	withAdopt(pool)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "w-config"}, Data: map[string]string{"other": "data"}}
	e := newEnvironment(t, append(newWorkers(1), pool, config)...)
	e.reconcilePool(t)
	e.reconcilePool(t)
	if e.get(t, "w-config", config); config.Data["other"] != "data" || len(e.jobsOf(t)["w-0"]) != 4 {
		t.Errorf("data %v", config.Data)
	}
}

// Jobs that cannot be read are not removed from their workers.
func TestUnreadableJobsChangeNoAssignment(t *testing.T) {
	for reason, change := range map[string]func(*v1alpha1.WorkerPool){
		"the source is not there": withMissingJobs,
		"a job is listed twice": func(pool *v1alpha1.WorkerPool) {
			pool.Spec.Jobs = append(pool.Spec.Jobs, pool.Spec.Jobs[0])
		},
	} {
		t.Run(reason, func(t *testing.T) {
			e := newPublishedPool(t)
			before := e.jobsOf(t)
			pool := e.getPool(t)
			pool.Spec.Jobs = pool.Spec.Jobs[:1]
			change(pool)
			pool.Generation++
			if err := e.client.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			after := e.reconcilePool(t)
			if got := e.jobsOf(t); !slices.Equal(got["w-0"], before["w-0"]) || !slices.Equal(got["w-1"], before["w-1"]) {
				t.Errorf("was %v, is %v", before, got)
			}
			if got := conditionOf(after, v1alpha1.ConditionDegraded); !strings.HasPrefix(got, "True Jobs") {
				t.Errorf("Degraded is %q", got)
			}
		})
	}
}

// What the operator publishes survives deletion and edits by others.
func TestConfigMapIsRestored(t *testing.T) {
	for reason, damage := range map[string]func(*testing.T, *environment, *corev1.ConfigMap){
		"deleted": func(t *testing.T, e *environment, config *corev1.ConfigMap) {
			t.Helper()
			if err := e.client.Delete(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		},
		"edited": func(t *testing.T, e *environment, config *corev1.ConfigMap) {
			t.Helper()
			config.Data["config.yml"] = "version: 1\nworkloads:\n  w-0:\n    jobs: [j00]\n    version: 1\n"
			if err := e.client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			e := newPublishedPool(t)
			before, config := e.jobsOf(t), &corev1.ConfigMap{}
			e.get(t, "w-config", config)
			damage(t, e, config)
			e.reconcilePool(t)
			restored := &corev1.ConfigMap{}
			e.get(t, "w-config", restored)
			if cm := plan.ParseConfigMap(restored, "config.yml"); cm.Modified || cm.File.Version <= 1 {
				t.Errorf("restored as version %d, torn %t", cm.File.Version, cm.Modified)
			}
			if now := e.jobsOf(t); slices.ContainsFunc(now["w-1"], func(job string) bool { return slices.Contains(before["w-0"], job) }) {
				t.Errorf("w-1 has %v, and w-0 may hold %v", now["w-1"], before["w-0"])
			}
			if events := e.stateFor(e.getPool(t)).events; len(events) == 0 || events[0].reason != "ConfigRestored" {
				t.Errorf("events to come: %v", events)
			}
		})
	}
}

// Each leader raises the fence of the config once, so that a late write of an earlier one conflicts. Numbers stored there by others do no
// harm.
func TestLeaderRaisesTheFenceOfTheConfig(t *testing.T) {
	e := newPublishedPool(t)
	for term, c := range []struct{ stored, want string }{
		{"5", "6"}, {"6", "7"}, {"", "1"}, {"fence", "1"}, {"-1", "1"}, {strconv.FormatInt(math.MaxInt64, 10), "1"},
		{strconv.Itoa(1 << 31), strconv.Itoa(1<<31 + 1)},
	} {
		config := &corev1.ConfigMap{}
		e.get(t, "w-config", config)
		config.Annotations[v1alpha1.AnnotationFence] = c.stored
		if err := e.client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		e.term, e.states = int64(term)+2, map[client.ObjectKey]*localState{}
		e.reconcilePool(t)
		e.get(t, "w-config", config)
		if got := config.Annotations[v1alpha1.AnnotationFence]; got != c.want {
			t.Errorf("fence %q became %q, want %q", c.stored, got, c.want)
		}
		if forged := c.stored == "-1" || len(c.stored) > 15; e.hasEvent(t, "fence") != forged {
			t.Errorf("fence %q: events %q", c.stored, e.events)
		}
		e.events = nil
		e.writes = nil
		if e.reconcilePool(t); e.hasWritten("update ConfigMap") {
			t.Errorf("wrote %q though the fence is this leader's", e.writes)
		}
	}
}

// An annotation added by another program causes no write. A changed fence does.
func TestFenceIsRaisedAgainOnlyAfterAnother(t *testing.T) {
	for annotation, written := range map[string]bool{"example.com/seen": false, v1alpha1.AnnotationFence: true} {
		e := newPublishedPool(t)
		config := &corev1.ConfigMap{}
		e.get(t, "w-config", config)
		config.Annotations[annotation] = "100"
		if err := e.client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		e.writes = nil
		if e.reconcilePool(t); e.hasWritten("update ConfigMap") != written {
			t.Errorf("%s: wrote %q", annotation, e.writes)
		}
	}
}

// A process may outlive its pod. While it renews its Lease, its jobs stay with it.
func TestJobsStayWithTheHolderOfALease(t *testing.T) {
	for reason, c := range map[string]struct {
		lease *coordinationv1.Lease
		moved bool
	}{
		"no Lease":          {nil, true},
		"held":              {leaseOf("w-1", "uid-w-1"), false},
		"held by no one":    {leaseOf("w-1", ""), true},
		"of another worker": {leaseOf("w-0", "uid-w-0"), true},
	} {
		t.Run(reason, func(t *testing.T) {
			var more []client.Object
			if c.lease != nil {
				more = append(more, c.lease)
			}
			e := newPublishedPool(t, more...)
			jobs := e.jobsOf(t)["w-1"]
			e.scaleInAndDelete(t, "w-1", 1)
			for range 4 {
				e.reconcilePool(t)
			}
			if moved := slices.Contains(e.jobsOf(t)["w-0"], jobs[0]); moved != c.moved {
				t.Errorf("moved: %t; published %v", moved, e.jobsOf(t))
			}
		})
	}
}

func TestJobsStayWhenTheLeaseCannotBeRead(t *testing.T) {
	fails := false
	e := failingEnvironment(t, func(kind string) error {
		if fails && kind == "*v1.Lease" {
			return errRefused
		}
		return nil
	}, append(newWorkers(2), newPool())...)
	e.reconcilePool(t)
	e.reconcilePool(t)
	e.scaleInAndDelete(t, "w-1", 1)
	fails, e.writes = true, nil
	if _, err := e.Reconcile(t.Context(), e.getPool(t)); !errors.Is(err, errRefused) || len(e.writes) > 0 {
		t.Errorf("got %v, wrote %q", err, e.writes)
	}
}

// Leases are read several at a time, and a pool may miss more workers than that.
func TestLeasesOfManyWorkersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for n := range 3 * maxParallelRequests {
			names = append(names, "w-"+strconv.Itoa(n))
		}
		e, state := newEnvironment(t, leaseOf("w-20", "uid-w-20")), newLocalState("pool")
		state.clocks.Leases.Set("w-99", plan.LeaseObservation{HolderUID: "uid-w-99"})
		if err := e.readLeases(t.Context(), newPool(), names, state); err != nil {
			t.Fatal(err)
		}
		if _, kept := state.clocks.Leases["w-99"]; kept || len(state.clocks.Leases) != len(names) || !state.clocks.Leases["w-20"].MayStillRun(nil) ||
			state.clocks.Leases["w-1"].MayStillRun(nil) {
			t.Errorf("saw %v", state.clocks.Leases)
		}
	})
}

// A worker that cannot be asked gives up its job with its pod. A new leader must see the old pod first to recognize the new one.
func TestReplacedPodFreesTheJobsItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool()
		pool.Spec.Refresh.Policy, pool.Spec.Refresh.MaxUnavailable = v1alpha1.RefreshAuto, 0 // pods are replaced externally
		e := newEnvironment(t, append(newWorkers(1), pool)...)
		e.converge(t)
		e.addWorker(t)
		e.converge(t)
		if got := e.jobsOf(t); len(got["w-0"]) != 2 || len(got["w-1"]) != 0 {
			t.Fatalf("published %v: w-0 may still run what it lost", got)
		}
		e.states = map[client.ObjectKey]*localState{}
		e.converge(t)
		e.replacePod(t, "w-0")
		e.converge(t)
		if got := e.jobsOf(t); len(got["w-0"]) != 2 || len(got["w-1"]) != 2 {
			t.Errorf("published %v: the pod that could run them is gone", got)
		}
	})
}

// converge reconciles until there is nothing to wait for.
func (e *environment) converge(t *testing.T) {
	t.Helper()
	for range 8 {
		e.reconcilePool(t)
		time.Sleep(5 * time.Second)
	}
}

// addWorker scales the StatefulSet from one to two.
func (e *environment) addWorker(t *testing.T) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	e.get(t, "w", set)
	set.Spec.Replicas = new(int32(2))
	if err := errors.Join(e.client.Update(t.Context(), set), e.client.Create(t.Context(), newWorkers(2)[2])); err != nil {
		t.Fatal(err)
	}
}

// replacePod deletes a pod and creates another of the same name.
func (e *environment) replacePod(t *testing.T, name string) {
	t.Helper()
	pod := &corev1.Pod{}
	e.get(t, name, pod)
	next := pod.DeepCopy()
	next.ResourceVersion, next.Name = "", name
	if err := e.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	e.uid = "uid-after"
	if err := e.client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
}

func leaseOf(worker, holder string) *coordinationv1.Lease {
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: lease.Name(worker)}}
	object.Spec.HolderIdentity, object.Spec.LeaseDurationSeconds = &holder, new(int32(600))
	return object
}

// scaleInAndDelete scales the StatefulSet in and removes a pod.
func (e *environment) scaleInAndDelete(t *testing.T, pod string, replicas int32) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	e.get(t, "w", set)
	set.Spec.Replicas = &replicas
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: pod}}
	if err := errors.Join(e.client.Update(t.Context(), set), e.client.Delete(t.Context(), gone)); err != nil {
		t.Fatal(err)
	}
}

// The number is changed only if the workload has not changed since it was read.
func TestPoolScalesItsWorkload(t *testing.T) {
	pool := newPool()
	pool.Spec.Replicas = new(int32(3))
	e := newEnvironment(t, append(newWorkers(2), pool)...)
	e.reconcilePool(t)
	at := slices.Index(e.writes, "scale StatefulSet w")
	if at < 0 || e.writes[at+1] != `{"metadata":{"resourceVersion":"999"},"spec":{"replicas":3}}` {
		t.Errorf("wrote %q", e.writes)
	}
}

// A new leader continues with the newest revision, and a recreated pool does not inherit the state of its predecessor.
func TestNewLeaderContinuesWithStoredRevisions(t *testing.T) {
	e := newPublishedPool(t)
	e.states = map[client.ObjectKey]*localState{}
	e.reconcilePool(t)
	if e.hasWritten("create ControllerRevision") || e.getPool(t).Status.Revision != 1 {
		t.Errorf("wrote %q; revision %d", e.writes, e.getPool(t).Status.Revision)
	}
	first := e.stateFor(e.getPool(t))
	again := e.getPool(t)
	again.UID = "another"
	if e.stateFor(again) == first {
		t.Error("another pool of the same name has the same memory")
	}
	if e.forget(client.ObjectKeyFromObject(again)); len(e.states) > 0 {
		t.Errorf("%d pools are remembered", len(e.states))
	}
}

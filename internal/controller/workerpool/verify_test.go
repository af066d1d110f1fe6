package workerpool

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// countingReader is an API server that counts requests.
type countingReader struct {
	client.Reader
	lock  sync.Mutex
	calls []string
}

func (c *countingReader) record(call string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.calls = append(c.calls, call)
}

func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.record("get " + key.Name)
	return c.Reader.Get(ctx, key, object, options...)
}

func (c *countingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.record("list")
	return c.Reader.List(ctx, list, options...)
}

// newPodReader returns an API server with the pods of a simulated cluster.
func (c *fakeCluster) newPodReader() *countingReader {
	var objects []client.Object
	for _, p := range c.pods {
		objects = append(objects, p.pod.DeepCopy())
	}
	return &countingReader{Reader: fake.NewClientBuilder().WithObjects(objects...).Build()}
}

// verifiedSnapshot returns the world after the reconciler's own reads of the cluster.
func (c *fakeCluster) verifiedSnapshot(t *testing.T, l *leader, server *countingReader) plan.Snapshot {
	t.Helper()
	snapshot, err := c.observe(l)
	if err != nil {
		t.Fatal(err)
	}
	snapshot.GoneWorkers, snapshot.ReleasedPods, snapshot.PodsVerified = nil, nil, false
	snapshot.Workload.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}}
	if err := (&reconciler{apiReader: server}).verifyAbsence(t.Context(), &snapshot, l.state); err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// labelPods gives all pods the labels that their workload selects.
func (c *fakeCluster) labelPods() {
	for _, p := range c.pods {
		p.pod = p.pod.DeepCopy()
		metav1.SetMetaDataLabel(&p.pod.ObjectMeta, "app", "w")
	}
}

func TestPodIsGoneOnlyIfTheAPIServerHasNoneOfItsName(t *testing.T) {
	for reason, c := range map[string]struct {
		change   func(*fakeCluster)
		gone     bool
		released bool
	}{
		"deleted": {func(c *fakeCluster) { delete(c.pods, "w-abc-1") }, true, false},
		"released by a label": {func(c *fakeCluster) { c.releasePod("w-abc-1"); delete(c.pods["w-abc-1"].pod.Labels, "app") }, false,
			true},
		"released, and another's": {func(c *fakeCluster) { c.pods["w-abc-1"].pod = controlledBy("ReplicaSet", "v-5f", "uid", "5f") },
			false, true},
		"its label is gone, not its owner": {func(c *fakeCluster) { delete(c.pods["w-abc-1"].pod.Labels, "app") }, false, false},
		"failed, as pod garbage collection has it for lost nodes": {func(c *fakeCluster) {
			c.releasePod("w-abc-1")
			c.pods["w-abc-1"].pod.Status.Phase = corev1.PodFailed
		}, false, true},
		"succeeded": {func(c *fakeCluster) {
			c.releasePod("w-abc-1")
			c.pods["w-abc-1"].pod.Status.Phase = corev1.PodSucceeded
		}, false, true},
	} {
		t.Run(reason, func(t *testing.T) {
			cluster, l := newFakeCluster(4, 2).asDeployment(), newLeader(1)
			cluster.converge(t, l)
			cluster.labelPods()
			c.change(cluster)
			if p := cluster.pods["w-abc-1"]; p != nil {
				p.pod.Name, p.pod.Namespace = "w-abc-1", "sim"
			}
			server := cluster.newPodReader()
			snapshot := cluster.verifiedSnapshot(t, l, server)
			if snapshot.GoneWorkers["w-abc-1"] != c.gone || (snapshot.ReleasedPods["w-abc-1"] != nil) != c.released {
				t.Errorf("gone %v, released %v", snapshot.GoneWorkers, snapshot.ReleasedPods)
			}
			if !slices.Equal(server.calls, []string{"list", "get w-abc-1"}) {
				t.Errorf("reads past the cache: %v", server.calls)
			}
		})
	}
}

func TestFailedLookupFreesNothing(t *testing.T) {
	c, l := newFakeCluster(4, 2).asDeployment(), newLeader(1)
	c.converge(t, l)
	delete(c.pods, "w-abc-1")
	snapshot, err := c.observe(l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = (&reconciler{apiReader: failingReader{c.newPodReader()}}).verifyAbsence(ctx, &snapshot, l.state)
	if err == nil || !strings.Contains(err.Error(), `pod "w-abc-1"`) {
		t.Errorf("got %v", err)
	}
}

// failingReader is an API server that answers List, but not Get.
type failingReader struct{ *countingReader }

func (failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errRefused
}

// A user removes a pod from its Deployment for debugging: kubectl label pod w-abc-1 app-. Its process keeps running.
func TestJobsOfAReleasedPodStayUntilItGivesThemUp(t *testing.T) {
	for _, silent := range []bool{false, true} {
		c, l := newFakeCluster(6, 2).asDeployment(), newLeader(1)
		c.converge(t, l)
		jobs := c.publishedLists(t)["w-abc-1"]
		c.releasePod("w-abc-1")
		c.pods["w-abc-1"].silent = silent
		c.createMissingPods()
		c.pods["w-abc-3"].setReady(true, c.now)
		for range 8 {
			c.reconcile(l, unlimitedWrites)
			c.advance(time.Second)
			if lists := c.publishedLists(t); slices.Contains(slices.Concat(lists["w-abc-2"], lists["w-abc-3"]), jobs[0]) {
				t.Fatalf("granted while pod w-abc-1 may hold it:\n%s", c.dump())
			}
		}
		if got := c.pods["w-abc-1"].pod.Annotations["swarm.io/config-version"]; got != "2" {
			t.Errorf("the released pod was told version %q", got)
		}
		next, _ := c.reconcile(l, unlimitedWrites)
		if len(next.Pending) != 1 || !strings.Contains(next.Pending[0].Reason, `Deployment "w" does not control it`) {
			t.Errorf("waits for %+v", next.Pending)
		}
		if silent {
			c.advance(time.Minute)
			next, _ = c.reconcile(l, unlimitedWrites)
			if len(next.Evictions) > 0 {
				t.Errorf("evicts %v, which does not belong to the workload", next.Evictions)
			}
			delete(c.pods, "w-abc-1")
		}
		c.converge(t, l)
		if lists := c.publishedLists(t); lists["w-abc-1"] != nil || !slices.Equal(lists["w-abc-3"], jobs) {
			t.Errorf("silent %t: %v", silent, lists)
		}
	}
}

// kubectl delete sts w --cascade=orphan, and kubectl apply with fewer replicas.
func TestOrphansOfAStatefulSetKeepTheirJobs(t *testing.T) {
	c, l := newFakeCluster(9, 3), newLeader(1)
	c.converge(t, l)
	jobs := c.publishedLists(t)["w-2"]
	c.orphanPods()
	c.replicas = 2
	c.adoptPod("w-0") // one after another; w-2 is still to come
	c.adoptPod("w-1")
	for range 3 {
		c.reconcile(l, unlimitedWrites)
		c.advance(time.Second)
		if lists := c.publishedLists(t); slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), jobs[0]) {
			t.Fatalf("granted while pod w-2 may hold it:\n%s", c.dump())
		}
	}
	c.converge(t, l)
}

// A worker returns under its name, on a node whose kubelet still has the file from before its jobs were given to others.
func TestNewPodStartsNothingFromAnOlderFile(t *testing.T) {
	for _, admits := range []bool{true, false} {
		c, l := newFakeCluster(6, 3), newLeader(1)
		c.admissionEnabled = admits
		c.converge(t, l)
		c.freezeKubelets()
		stale := c.kubeletFiles
		c.replicas = 2
		c.converge(t, l)
		c.replicas, c.kubeletFiles = 3, stale
		c.createMissingPods()
		if c.loadFile(c.pods["w-2"]); len(c.pods["w-2"].runningJobs) == 0 != admits {
			t.Errorf("admission %t: the new pod runs %v", admits, c.pods["w-2"].runningJobs)
		}
		if admits {
			c.converge(t, l)
		}
	}
}

func TestStablePoolReadsNothingPastTheCache(t *testing.T) {
	for _, c := range []*fakeCluster{newFakeCluster(9, 3), newFakeCluster(9, 3).asDeployment()} {
		l := newLeader(1)
		c.converge(t, l)
		for range 3 {
			if w, err := c.observe(l); err != nil || w.PodsVerified || len(w.GoneHolders(&l.state.clocks)) > 0 {
				t.Errorf("%s: verified %t, looks at Leases of %v", c.pool.Spec.Workers.Kind, w.PodsVerified, w.GoneHolders(&l.state.clocks))
			}
		}
	}
}

// Only its name leads from a released pod to the pool that waits for it.
func TestReleasedPodTriggersItsPool(t *testing.T) {
	pool, pod := types.NamespacedName{Namespace: "sim", Name: "pool"}, podNamed("w-0")
	r := &reconciler{client: fake.NewClientBuilder().Build(), releasedPods: map[types.NamespacedName]types.NamespacedName{}}
	r.watchReleased(pool, map[string]*corev1.Pod{"w-0": pod})
	if got := r.poolsOfPod(t.Context(), pod); !slices.Equal(got, []types.NamespacedName{pool}) {
		t.Errorf("woken: %v", got)
	}
	r.watchReleased(pool, nil)
	if got := r.poolsOfPod(t.Context(), pod); len(got) > 0 {
		t.Errorf("woken for nothing: %v", got)
	}
}

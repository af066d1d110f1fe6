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
)

// counting is an API server that counts requests.
type counting struct {
	client.Reader
	lock  sync.Mutex
	calls []string
}

func (c *counting) note(call string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.calls = append(c.calls, call)
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.note("get " + key.Name)
	return c.Reader.Get(ctx, key, object, options...)
}

func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.note("list")
	return c.Reader.List(ctx, list, options...)
}

// podServer returns an API server with the pods of a simulated cluster.
func (c *cluster) podServer() *counting {
	var objects []client.Object
	for _, p := range c.pods {
		objects = append(objects, p.pod.DeepCopy())
	}
	return &counting{Reader: fake.NewClientBuilder().WithObjects(objects...).Build()}
}

// verified returns the world after the reconciler's own reads of the cluster.
func (c *cluster) verified(t *testing.T, l *leader, server *counting) world {
	t.Helper()
	w, err := c.observe(l)
	if err != nil {
		t.Fatal(err)
	}
	w.gone, w.released, w.verified = nil, nil, false
	w.workload.selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}}
	if err := (&reconciler{live: server}).verify(t.Context(), &w, l.memory); err != nil {
		t.Fatal(err)
	}
	return w
}

// label gives all pods the labels that their workload selects.
func (c *cluster) label() {
	for _, p := range c.pods {
		p.pod = p.pod.DeepCopy()
		metav1.SetMetaDataLabel(&p.pod.ObjectMeta, "app", "w")
	}
}

func TestPodIsGoneOnlyIfTheAPIServerHasNoneOfItsName(t *testing.T) {
	for reason, c := range map[string]struct {
		change   func(*cluster)
		gone     bool
		released bool
	}{
		"deleted":                          {func(c *cluster) { delete(c.pods, "w-abc-1") }, true, false},
		"released by a label":              {func(c *cluster) { c.release("w-abc-1"); delete(c.pods["w-abc-1"].pod.Labels, "app") }, false, true},
		"released, and another's":          {func(c *cluster) { c.pods["w-abc-1"].pod = controlledBy("ReplicaSet", "v-5f", "uid", "5f") }, false, true},
		"its label is gone, not its owner": {func(c *cluster) { delete(c.pods["w-abc-1"].pod.Labels, "app") }, false, false},
		"failed, as pod garbage collection has it for lost nodes": {func(c *cluster) {
			c.release("w-abc-1")
			c.pods["w-abc-1"].pod.Status.Phase = corev1.PodFailed
		}, false, true},
		"succeeded": {func(c *cluster) { c.release("w-abc-1"); c.pods["w-abc-1"].pod.Status.Phase = corev1.PodSucceeded }, false, true},
	} {
		t.Run(reason, func(t *testing.T) {
			cluster, l := newCluster(4, 2).deployed(), newLeader(1)
			cluster.settle(t, l)
			cluster.label()
			c.change(cluster)
			if p := cluster.pods["w-abc-1"]; p != nil {
				p.pod.Name, p.pod.Namespace = "w-abc-1", "sim"
			}
			server := cluster.podServer()
			w := cluster.verified(t, l, server)
			if w.gone["w-abc-1"] != c.gone || (w.released["w-abc-1"] != nil) != c.released {
				t.Errorf("gone %v, released %v", w.gone, w.released)
			}
			if !slices.Equal(server.calls, []string{"list", "get w-abc-1"}) {
				t.Errorf("reads past the cache: %v", server.calls)
			}
		})
	}
}

func TestFailedLookupFreesNothing(t *testing.T) {
	c, l := newCluster(4, 2).deployed(), newLeader(1)
	c.settle(t, l)
	delete(c.pods, "w-abc-1")
	w, err := c.observe(l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = (&reconciler{live: refusing{c.podServer()}}).verify(ctx, &w, l.memory)
	if err == nil || !strings.Contains(err.Error(), `pod "w-abc-1"`) {
		t.Errorf("got %v", err)
	}
}

// refusing is an API server that answers List, but not Get.
type refusing struct{ *counting }

func (refusing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errRefused
}

// A user removes a pod from its Deployment for debugging: kubectl label pod w-abc-1 app-. Its process keeps running.
func TestJobsOfAReleasedPodStayUntilItGivesThemUp(t *testing.T) {
	for _, silent := range []bool{false, true} {
		c, l := newCluster(6, 2).deployed(), newLeader(1)
		c.settle(t, l)
		held := c.lists(t)["w-abc-1"]
		c.release("w-abc-1")
		c.pods["w-abc-1"].unheeding = silent
		c.raise()
		c.pods["w-abc-3"].ready(true, c.now)
		for range 8 {
			c.reconcile(l, lives)
			c.pass(time.Second)
			if lists := c.lists(t); slices.Contains(slices.Concat(lists["w-abc-2"], lists["w-abc-3"]), held[0]) {
				t.Fatalf("granted while pod w-abc-1 may hold it:\n%s", c.story())
			}
		}
		if got := c.pods["w-abc-1"].pod.Annotations["swarm.io/config-version"]; got != "2" {
			t.Errorf("the released pod was told version %q", got)
		}
		made, _ := c.reconcile(l, lives)
		if len(made.Waiting) != 1 || !strings.Contains(made.Waiting[0].Reason, `Deployment "w" does not control it`) {
			t.Errorf("waits for %+v", made.Waiting)
		}
		if silent {
			c.pass(time.Minute)
			made, _ = c.reconcile(l, lives)
			if len(made.Evict) > 0 {
				t.Errorf("evicts %v, which does not belong to the workload", made.Evict)
			}
			delete(c.pods, "w-abc-1")
		}
		c.settle(t, l)
		if lists := c.lists(t); lists["w-abc-1"] != nil || !slices.Equal(lists["w-abc-3"], held) {
			t.Errorf("silent %t: %v", silent, lists)
		}
	}
}

// kubectl delete sts w --cascade=orphan, and kubectl apply with fewer replicas.
func TestOrphansOfAStatefulSetKeepTheirJobs(t *testing.T) {
	c, l := newCluster(9, 3), newLeader(1)
	c.settle(t, l)
	held := c.lists(t)["w-2"]
	c.orphan()
	c.replicas = 2
	c.adopt("w-0") // one after another; w-2 is still to come
	c.adopt("w-1")
	for range 3 {
		c.reconcile(l, lives)
		c.pass(time.Second)
		if lists := c.lists(t); slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), held[0]) {
			t.Fatalf("granted while pod w-2 may hold it:\n%s", c.story())
		}
	}
	c.settle(t, l)
}

// A worker returns under its name, on a node whose kubelet still has the file from before its jobs were given to others.
func TestNewPodStartsNothingFromAnOlderFile(t *testing.T) {
	for _, admits := range []bool{true, false} {
		c, l := newCluster(6, 3), newLeader(1)
		c.admits = admits
		c.settle(t, l)
		c.fallBehind()
		stale := c.kubelet
		c.replicas = 2
		c.settle(t, l)
		c.replicas, c.kubelet = 3, stale
		c.raise()
		if c.load(c.pods["w-2"]); len(c.pods["w-2"].running) == 0 != admits {
			t.Errorf("admission %t: the new pod runs %v", admits, c.pods["w-2"].running)
		}
		if admits {
			c.settle(t, l)
		}
	}
}

func TestStablePoolReadsNothingPastTheCache(t *testing.T) {
	for _, c := range []*cluster{newCluster(9, 3), newCluster(9, 3).deployed()} {
		l := newLeader(1)
		c.settle(t, l)
		for range 3 {
			if w, err := c.observe(l); err != nil || w.verified || len(w.bereft(l.memory)) > 0 {
				t.Errorf("%s: verified %t, looks at Leases of %v", c.pool.Spec.Workers.Kind, w.verified, w.bereft(l.memory))
			}
		}
	}
}

// Only its name leads from a released pod to the pool that waits for it.
func TestPoolIsWokenByAPodThatLeftItsWorkload(t *testing.T) {
	pool, pod := types.NamespacedName{Namespace: "sim", Name: "pool"}, podNamed("w-0")
	r := &reconciler{client: fake.NewClientBuilder().Build(), released: map[types.NamespacedName]types.NamespacedName{}}
	r.watchReleased(pool, map[string]*corev1.Pod{"w-0": pod})
	if got := r.poolsOfPod(t.Context(), pod); !slices.Equal(got, []types.NamespacedName{pool}) {
		t.Errorf("woken: %v", got)
	}
	r.watchReleased(pool, nil)
	if got := r.poolsOfPod(t.Context(), pod); len(got) > 0 {
		t.Errorf("woken for nothing: %v", got)
	}
}

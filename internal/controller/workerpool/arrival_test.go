package workerpool

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// bereaved returns a pool whose w-2 was missing for so long that it loses its jobs. Its next pod was admitted before that, on a node
// whose kubelet has the current file and receives no later one.
func bereaved(t *testing.T) (c *cluster, l *leader, held []string) {
	t.Helper()
	c, l = newCluster(6, 3), newLeader(1)
	c.admits = true
	c.settle(t, l)
	held = c.lists(t)["w-2"]
	c.terminate("w-2")
	c.bury("w-2")
	c.fallBehind()
	c.reconcile(l, lives)
	c.pass(time.Minute)
	c.begin("w-2")
	c.work(t, l)
	if list := c.lists(t)["w-2"]; len(list) > 0 {
		t.Fatalf("w-2 has %v", list)
	}
	return c, l, held
}

// work reconciles once, and existing workers load their lists.
func (c *cluster) work(t *testing.T, l *leader) Plan {
	t.Helper()
	made, _ := c.reconcile(l, lives)
	for _, name := range []string{"w-0", "w-1"} {
		c.mount(c.pods[name])
		c.load(c.pods[name])
	}
	c.owners(t)
	return made
}

// A pod may be stored long after its admission: its floor dates from before its jobs were revoked, and possibly its file too.
func TestPodThatIsStoredLateFindsItsJobsUngranted(t *testing.T) {
	c, l, held := bereaved(t)
	for c.creates["w-2"] != nil {
		c.work(t, l)
		if c.now.Sub(c.creates["w-2"].admitted) == longestCreate {
			c.store("w-2")
			break
		}
		c.pass(time.Second)
	}
	if c.load(c.pods["w-2"]); !slices.Equal(runs(c.pods["w-2"]), held) {
		t.Fatalf("the late pod runs %v of %v", runs(c.pods["w-2"]), held)
	}
	c.work(t, l)
	c.work(t, l)
	c.settle(t, l)
}

func TestJobsOfAnAbsentWorkerWaitForCreatesThatAreUnderWay(t *testing.T) {
	c, l, held := bereaved(t)
	delete(c.creates, "w-2") // it is never stored
	revoked := c.now
	for !slices.Contains(slices.Concat(c.lists(t)["w-0"], c.lists(t)["w-1"]), held[0]) {
		made := c.work(t, l)
		if waited := c.now.Sub(revoked); waited == createTime/3 {
			want := "it has no pod, but one that was admitted before version 2 was published may still be created until " +
				revoked.Add(createTime).UTC().Format("15:04:05 UTC")
			if len(made.Waiting) != 1 || made.Waiting[0].Reason != want || made.Again <= 0 || made.Again > createTime-waited {
				t.Errorf("waits for %+v, and looks again in %s", made.Waiting, made.Again)
			}
		}
		c.pass(time.Second)
	}
	if waited := c.now.Sub(revoked); waited < createTime || waited > createTime+3*time.Second {
		t.Errorf("granted after %s", waited)
	}
}

// A new leader does not know since when the list is published: it waits for the full time.
func TestNewLeaderWaitsAnewForCreates(t *testing.T) {
	c, l, held := bereaved(t)
	c.pass(createTime - time.Second)
	next := newLeader(2)
	c.work(t, next)
	c.pass(2 * time.Second)
	c.work(t, next)
	if lists := c.lists(t); slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), held[0]) {
		t.Errorf("granted: %v", lists)
	}
	c.work(t, l)
}

// An ordinal that the StatefulSet does not want gets no more pods, once its controller knows that.
func TestJobsOfAScaledDownWorkerDoNotWaitForCreates(t *testing.T) {
	for _, observed := range []bool{true, false} {
		c, l := newCluster(6, 3), newLeader(1)
		c.settle(t, l)
		held := c.lists(t)["w-2"]
		c.replicas = 2
		c.terminate("w-2")
		c.bury("w-2")
		if !observed {
			c.begin("w-2") // its controller waits for the response, and has not read its spec since
		}
		var made Plan
		for range 5 {
			made = c.work(t, l)
		}
		lists := c.lists(t)
		if got := slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), held[0]); got != observed {
			t.Errorf("observed %t: granted %t, waits for %+v", observed, got, made.Waiting)
		}
		if !observed && (len(made.Waiting) == 0 || !strings.Contains(made.Waiting[0].Reason, "may still be created")) {
			t.Errorf("waits for %+v", made.Waiting)
		}
		c.settle(t, l)
	}
}

func runs(p *process) []string { return slices.Sorted(maps.Keys(p.running)) }

func TestStatefulSetIsObservedWhenItsControllerSaysSo(t *testing.T) {
	for observed, want := range map[int64]bool{1: false, 2: true} {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "w", Generation: 2}}
		set.Status.ObservedGeneration = observed
		found, err := newEnvironment(t, set).find(t.Context(), client.ObjectKeyFromObject(set), v1alpha1.WorkloadStatefulSet)
		if err != nil || found.observed != want {
			t.Errorf("generation %d: observed %t, %v", observed, found.observed, err)
		}
	}
}

func TestOnlyExclusiveWaitsForCreates(t *testing.T) {
	for _, handoff := range []v1alpha1.PoolHandoff{v1alpha1.HandoffExclusive, v1alpha1.HandoffOverlap, v1alpha1.HandoffBestEffort} {
		c, l := newCluster(6, 3), newLeader(1)
		c.pool.Spec.Handoff = handoff
		c.settle(t, l)
		c.terminate("w-2")
		c.bury("w-2")
		c.reconcile(l, lives)
		c.pass(time.Minute)
		var made Plan
		for range 5 {
			made, _ = c.reconcile(l, lives)
			for _, name := range []string{"w-0", "w-1"} {
				c.mount(c.pods[name])
				c.load(c.pods[name])
			}
		}
		if waits := len(made.Waiting) > 0; waits != (handoff == v1alpha1.HandoffExclusive) {
			t.Errorf("%s: waits for %+v", handoff, made.Waiting)
		}
	}
}

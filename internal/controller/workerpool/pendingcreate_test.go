package workerpool

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// newClusterWithAbsentWorker returns a pool whose w-2 was missing for so long that it loses its jobs. Its next pod was admitted before
// that, on a node whose kubelet has the current file and receives no later one.
func newClusterWithAbsentWorker(t *testing.T) (c *fakeCluster, l *leader, jobs []string) {
	t.Helper()
	c, l = newFakeCluster(6, 3), newLeader(1)
	c.admissionEnabled = true
	c.converge(t, l)
	jobs = c.publishedLists(t)["w-2"]
	c.terminatePod("w-2")
	c.removeTerminatedPod("w-2")
	c.freezeKubelets()
	c.reconcile(l, unlimitedWrites)
	c.advance(time.Minute)
	c.beginCreate("w-2")
	c.reconcileAndLoad(t, l)
	if list := c.publishedLists(t)["w-2"]; len(list) > 0 {
		t.Fatalf("w-2 has %v", list)
	}
	return c, l, jobs
}

// reconcileAndLoad reconciles once, and existing workers load their lists.
func (c *fakeCluster) reconcileAndLoad(t *testing.T, l *leader) plan.Plan {
	t.Helper()
	next, _ := c.reconcile(l, unlimitedWrites)
	for _, name := range []string{"w-0", "w-1"} {
		c.syncFile(c.pods[name])
		c.loadFile(c.pods[name])
	}
	c.requireOneOwner(t)
	return next
}

// A pod may be stored long after its admission: its floor dates from before its jobs were revoked, and possibly its file too.
func TestPodThatIsStoredLateFindsItsJobsUngranted(t *testing.T) {
	c, l, jobs := newClusterWithAbsentWorker(t)
	for c.pendingCreates["w-2"] != nil {
		c.reconcileAndLoad(t, l)
		if c.now.Sub(c.pendingCreates["w-2"].admitted) == createTimeLimit {
			c.finishCreate("w-2")
			break
		}
		c.advance(time.Second)
	}
	if c.loadFile(c.pods["w-2"]); !slices.Equal(runningJobs(c.pods["w-2"]), jobs) {
		t.Fatalf("the late pod runs %v of %v", runningJobs(c.pods["w-2"]), jobs)
	}
	c.reconcileAndLoad(t, l)
	c.reconcileAndLoad(t, l)
	c.converge(t, l)
}

func TestJobsOfAnAbsentWorkerWaitForCreatesThatAreUnderWay(t *testing.T) {
	c, l, jobs := newClusterWithAbsentWorker(t)
	delete(c.pendingCreates, "w-2") // it is never stored
	revoked := c.now
	for !slices.Contains(slices.Concat(c.publishedLists(t)["w-0"], c.publishedLists(t)["w-1"]), jobs[0]) {
		next := c.reconcileAndLoad(t, l)
		if waited := c.now.Sub(revoked); waited == plan.MaxCreateDuration/3 {
			want := "it has no pod, but one that was admitted before version 2 was published may still be created until " +
				revoked.Add(plan.MaxCreateDuration).UTC().Format("15:04:05 UTC")
			if len(next.Pending) != 1 || next.Pending[0].Reason != want || next.RequeueAfter <= 0 || next.RequeueAfter > plan.MaxCreateDuration-waited {
				t.Errorf("waits for %+v, and looks again in %s", next.Pending, next.RequeueAfter)
			}
		}
		c.advance(time.Second)
	}
	if waited := c.now.Sub(revoked); waited < plan.MaxCreateDuration || waited > plan.MaxCreateDuration+3*time.Second {
		t.Errorf("granted after %s", waited)
	}
}

// A new leader does not know since when the list is published: it waits for the full time.
func TestNewLeaderWaitsAnewForCreates(t *testing.T) {
	c, l, jobs := newClusterWithAbsentWorker(t)
	c.advance(plan.MaxCreateDuration - time.Second)
	next := newLeader(2)
	c.reconcileAndLoad(t, next)
	c.advance(2 * time.Second)
	c.reconcileAndLoad(t, next)
	if lists := c.publishedLists(t); slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), jobs[0]) {
		t.Errorf("granted: %v", lists)
	}
	c.reconcileAndLoad(t, l)
}

// An ordinal that the StatefulSet does not want gets no more pods, once its controller knows that.
func TestJobsOfAScaledDownWorkerDoNotWaitForCreates(t *testing.T) {
	for _, observed := range []bool{true, false} {
		c, l := newFakeCluster(6, 3), newLeader(1)
		c.converge(t, l)
		jobs := c.publishedLists(t)["w-2"]
		c.replicas = 2
		c.terminatePod("w-2")
		c.removeTerminatedPod("w-2")
		if !observed {
			c.beginCreate("w-2") // its controller waits for the response, and has not read its spec since
		}
		var next plan.Plan
		for range 5 {
			next = c.reconcileAndLoad(t, l)
		}
		lists := c.publishedLists(t)
		if got := slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), jobs[0]); got != observed {
			t.Errorf("observed %t: granted %t, waits for %+v", observed, got, next.Pending)
		}
		if !observed && (len(next.Pending) == 0 || !strings.Contains(next.Pending[0].Reason, "may still be created")) {
			t.Errorf("waits for %+v", next.Pending)
		}
		c.converge(t, l)
	}
}

func runningJobs(p *fakeWorker) []string { return slices.Sorted(maps.Keys(p.runningJobs)) }

func TestOnlyExclusiveWaitsForCreates(t *testing.T) {
	for _, handoff := range []v1alpha1.PoolHandoff{v1alpha1.HandoffExclusive, v1alpha1.HandoffOverlap, v1alpha1.HandoffBestEffort} {
		c, l := newFakeCluster(6, 3), newLeader(1)
		c.pool.Spec.Handoff = handoff
		c.converge(t, l)
		c.terminatePod("w-2")
		c.removeTerminatedPod("w-2")
		c.reconcile(l, unlimitedWrites)
		c.advance(time.Minute)
		var next plan.Plan
		for range 5 {
			next, _ = c.reconcile(l, unlimitedWrites)
			for _, name := range []string{"w-0", "w-1"} {
				c.syncFile(c.pods[name])
				c.loadFile(c.pods[name])
			}
		}
		if waits := len(next.Pending) > 0; waits != (handoff == v1alpha1.HandoffExclusive) {
			t.Errorf("%s: waits for %+v", handoff, next.Pending)
		}
	}
}

package workerpool

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// publishedLists returns the published lists, by worker.
func (c *fakeCluster) publishedLists(t *testing.T) map[string][]string {
	t.Helper()
	file, err := codec.ParseFile(c.publishedFiles())
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for _, entry := range file.Workers {
		lists[entry.Worker] = entry.Jobs
	}
	return lists
}

// advanceSecond simulates one second in which all workers load and a leader reconciles.
func (c *fakeCluster) advanceSecond(t *testing.T, l *leader) Plan {
	t.Helper()
	c.advance(time.Second)
	for _, p := range c.pods {
		c.syncFile(p)
		c.loadFile(p)
		c.requireOneOwner(t)
	}
	plan, _ := c.reconcile(l, unlimitedWrites)
	return plan
}

// A clusterWithPodlessWorker is a pool with a process that has outlived its pod, and with no successor of that pod.
type clusterWithPodlessWorker struct {
	*fakeCluster
	podlessWorker *fakeWorker
	podlessJobs   []string
}

func newClusterWithPodlessWorker(t *testing.T, l *leader) *clusterWithPodlessWorker {
	t.Helper()
	w := &clusterWithPodlessWorker{fakeCluster: newFakeCluster(9, 3)}
	w.leases = map[string]*fakeLease{}
	w.converge(t, l)
	w.podlessWorker, w.podlessJobs = w.pods["w-2"], w.publishedLists(t)["w-2"]
	w.replicas = 2
	w.removePodKeepProcess("w-2")
	return w
}

// jobsMoved reports whether another worker has its jobs.
func (w *clusterWithPodlessWorker) jobsMoved(t *testing.T) bool {
	t.Helper()
	lists := w.publishedLists(t)
	return slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), w.podlessJobs[0])
}

func TestAProcessThatRenewsItsLeaseKeepsItsJobs(t *testing.T) {
	l := newLeader(1)
	w := newClusterWithPodlessWorker(t, l)
	w.advanceSecond(t, l)
	w.advanceSecond(t, l)
	for n := range 60 {
		plan := w.advanceSecond(t, l)
		if w.jobsMoved(t) {
			t.Fatalf("given away after %d s:\n%s", n, w.dump())
		}
		if plan.RequeueAfter == 0 || plan.RequeueAfter > leaseDuration/2 {
			t.Errorf("looks again in %s", plan.RequeueAfter)
		}
		if len(plan.Pending) != 1 || plan.Pending[0].Worker != "w-2" ||
			n > 0 && !strings.HasSuffix(plan.Pending[0].Reason, "it is still renewed") {
			t.Errorf("waits for %+v", plan.Pending)
		}
	}
}

// A leader that has never seen the Lease renewed frees the jobs as well.
func TestALeaseThatHasRunOutSetsItsJobsFree(t *testing.T) {
	for name, succeed := range map[string]bool{"by the same leader": false, "by the next leader": true} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(1)
			w := newClusterWithPodlessWorker(t, l)
			for range 10 {
				w.advanceSecond(t, l)
			}
			if succeed {
				l = newLeader(2)
			}
			w.podlessWorker.partitioned = true
			seconds, reason := 0, ""
			for ; !w.jobsMoved(t) && seconds < 60; seconds++ {
				if plan := w.advanceSecond(t, l); len(plan.Pending) > 0 {
					reason = plan.Pending[0].Reason
				}
			}
			if least := int(lease.TakeoverDelay(leaseDuration) / time.Second); seconds < least || seconds > least+3 {
				t.Errorf("given away %d s after the last renewal", seconds)
			}
			if !strings.Contains(reason, `pod u3 is gone, but holds Lease "swarm-worker-w-2"`) || !strings.Contains(reason, "until about ") {
				t.Errorf("said %q", reason)
			}
			w.converge(t, l)
		})
	}
}

func TestLeaseObservationUsesLocalTime(t *testing.T) {
	begun := time.Unix(1000, 0)
	observedAt := func(seconds int, version, holder string) leaseObservation {
		moment := begun.Add(time.Duration(seconds) * time.Second)
		return leaseObservation{resourceVersion: version, holderUID: holder, duration: 15 * time.Second, observedSince: moment, checkedAt: moment}
	}
	first := leaseObservation{}.merge(observedAt(0, "1", "a"))
	for reason, c := range map[string]struct {
		seen    leaseObservation
		pod     string
		shadows bool
	}{
		"there is no Lease":                      {leaseObservation{}.merge(leaseObservation{checkedAt: begun}), "", false},
		"it was seen just now":                   {first, "", true},
		"it is as it was":                        {first.merge(observedAt(16, "1", "a")), "", true},
		"it is as it was for all of its time":    {first.merge(observedAt(17, "1", "a")), "", false},
		"it was renewed at the last moment":      {first.merge(observedAt(17, "2", "a")), "", true},
		"it was given back":                      {first.merge(observedAt(1, "2", "")), "", false},
		"it was deleted":                         {first.merge(leaseObservation{checkedAt: begun.Add(time.Second)}), "", false},
		"it is that of the pod that is there":    {first, "a", false},
		"it is that of the pod before":           {first, "b", true},
		"the pod that is there has taken it now": {first.merge(observedAt(1, "2", "b")), "b", false},
	} {
		var present *corev1.Pod
		if c.pod != "" {
			present = &corev1.Pod{}
			present.UID = types.UID(c.pod)
		}
		if got := c.seen.mayStillRun(present); got != c.shadows {
			t.Errorf("%s: a worker may live on: %t", reason, got)
		}
	}
	if !first.merge(observedAt(1, "2", "a")).renewed || first.merge(observedAt(1, "2", "b")).renewed || first.renewed {
		t.Error("renewed by whom")
	}
}

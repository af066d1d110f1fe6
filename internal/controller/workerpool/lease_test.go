package workerpool

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
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
func (c *fakeCluster) advanceSecond(t *testing.T, l *leader) plan.Plan {
	t.Helper()
	c.advance(time.Second)
	for _, p := range c.pods {
		c.syncFile(p)
		c.loadFile(p)
		c.requireOneOwner(t)
	}
	next, _ := c.reconcile(l, unlimitedWrites)
	return next
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
		next := w.advanceSecond(t, l)
		if w.jobsMoved(t) {
			t.Fatalf("given away after %d s:\n%s", n, w.dump())
		}
		if next.RequeueAfter == 0 || next.RequeueAfter > leaseDuration/2 {
			t.Errorf("looks again in %s", next.RequeueAfter)
		}
		if len(next.Pending) != 1 || next.Pending[0].Worker != "w-2" ||
			n > 0 && !strings.HasSuffix(next.Pending[0].Reason, "it is still renewed") {
			t.Errorf("waits for %+v", next.Pending)
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
				if next := w.advanceSecond(t, l); len(next.Pending) > 0 {
					reason = next.Pending[0].Reason
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

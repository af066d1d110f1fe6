package workerpool

import (
	"maps"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// collectRenudges reconciles once per second while w-0 stays silent, and returns when it was nudged again and with which annotation.
func collectRenudges(c *fakeCluster, l *leader, seconds int) map[int]string {
	renudges := map[int]string{}
	for second := range seconds {
		plan, _ := c.reconcile(l, unlimitedWrites)
		for _, n := range plan.Nudges {
			if again := n.Annotations[v1alpha1.AnnotationNudge]; again != "" {
				renudges[second] = n.Pod.Name + ": " + again
			}
		}
		for name, p := range c.pods {
			if name != "w-0" {
				c.syncFile(p)
				c.loadFile(p)
			}
		}
		c.advance(time.Second)
	}
	return renudges
}

func TestSilentWorkerIsNudgedAgainAfter4And12And28Seconds(t *testing.T) {
	c, l := newFakeCluster(4, 2), newLeader(1)
	c.pool.Spec.Refresh.Policy = v1alpha1.RefreshHotReload
	c.converge(t, l)
	c.pods["w-0"].silent = true
	c.setJobs(8)
	want := map[int]string{4: "w-0: 2.1", 12: "w-0: 2.2", 28: "w-0: 2.3"}
	if got := collectRenudges(c, l, 120); !maps.Equal(got, want) {
		t.Errorf("nudged again at %v, want %v\n%s", got, want, c.dump())
	}
}

func TestAcknowledgedListIsNotNudgedAgain(t *testing.T) {
	c, l := newFakeCluster(4, 2), newLeader(1)
	c.converge(t, l)
	c.setJobs(8)
	c.converge(t, l)
	if got := collectRenudges(c, l, 60); len(got) > 0 {
		t.Errorf("nudged again at %v", got)
	}
}

// A worker that acknowledges late is not nudged after that.
func TestNudgesEndWithTheAcknowledgement(t *testing.T) {
	c, l := newFakeCluster(4, 2), newLeader(1)
	c.pool.Spec.Refresh.Policy = v1alpha1.RefreshHotReload
	c.converge(t, l)
	late := c.pods["w-0"]
	late.silent = true
	c.setJobs(8)
	want := map[int]string{4: "w-0: 2.1", 12: "w-0: 2.2"}
	if got := collectRenudges(c, l, 20); !maps.Equal(got, want) {
		t.Fatalf("nudged again at %v, want %v\n%s", got, want, c.dump())
	}
	late.silent = false
	c.converge(t, l)
	if got := collectRenudges(c, l, 60); len(got) > 0 {
		t.Errorf("nudged again at %v after it has acknowledged\n%s", got, c.dump())
	}
}

package workerpool

import (
	"maps"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// nudges reconciles once per second while w-0 stays silent, and returns when it was nudged again and with which annotation.
func nudges(c *cluster, l *leader, seconds int) map[int]string {
	found := map[int]string{}
	for second := range seconds {
		made, _ := c.reconcile(l, lives)
		for _, one := range made.Nudge {
			if again := one.annotations[v1alpha1.AnnotationNudge]; again != "" {
				found[second] = one.pod.Name + ": " + again
			}
		}
		for name, p := range c.pods {
			if name != "w-0" {
				c.mount(p)
				c.load(p)
			}
		}
		c.pass(time.Second)
	}
	return found
}

func TestSilentWorkerIsNudgedAgainAfter4And12And28Seconds(t *testing.T) {
	c, l := newCluster(4, 2), newLeader(1)
	c.pool.Spec.Refresh.Policy = v1alpha1.RefreshHotReload
	c.settle(t, l)
	c.pods["w-0"].unheeding = true
	c.want(8)
	want := map[int]string{4: "w-0: 2.1", 12: "w-0: 2.2", 28: "w-0: 2.3"}
	if got := nudges(c, l, 120); !maps.Equal(got, want) {
		t.Errorf("nudged again at %v, want %v\n%s", got, want, c.story())
	}
}

func TestAcknowledgedListIsNotNudgedAgain(t *testing.T) {
	c, l := newCluster(4, 2), newLeader(1)
	c.settle(t, l)
	c.want(8)
	c.settle(t, l)
	if got := nudges(c, l, 60); len(got) > 0 {
		t.Errorf("nudged again at %v", got)
	}
}

// A worker that acknowledges late is not nudged after that.
func TestNudgesEndWithTheAcknowledgement(t *testing.T) {
	c, l := newCluster(4, 2), newLeader(1)
	c.pool.Spec.Refresh.Policy = v1alpha1.RefreshHotReload
	c.settle(t, l)
	late := c.pods["w-0"]
	late.unheeding = true
	c.want(8)
	want := map[int]string{4: "w-0: 2.1", 12: "w-0: 2.2"}
	if got := nudges(c, l, 20); !maps.Equal(got, want) {
		t.Fatalf("nudged again at %v, want %v\n%s", got, want, c.story())
	}
	late.unheeding = false
	c.settle(t, l)
	if got := nudges(c, l, 60); len(got) > 0 {
		t.Errorf("nudged again at %v after it has acknowledged\n%s", got, c.story())
	}
}

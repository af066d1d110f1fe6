package workerpool

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/roster"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// lists returns the published lists, by worker.
func (c *cluster) lists(t *testing.T) map[string][]string {
	t.Helper()
	file, err := roster.ParseFile(c.file())
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for _, entry := range file.Workers {
		lists[entry.Worker] = entry.Jobs
	}
	return lists
}

// second simulates one second in which all workers load and a leader reconciles.
func (c *cluster) second(t *testing.T, l *leader) Plan {
	t.Helper()
	c.pass(time.Second)
	for _, p := range c.pods {
		c.mount(p)
		c.load(p)
		c.owners(t)
	}
	made, _ := c.reconcile(l, lives)
	return made
}

// A wake is a pool with a process that has outlived its pod, and with no successor of that pod.
type wake struct {
	*cluster
	ghost *process
	held  []string
}

func waking(t *testing.T, l *leader) *wake {
	t.Helper()
	w := &wake{cluster: newCluster(9, 3)}
	w.leases = map[string]*testimony{}
	w.settle(t, l)
	w.ghost, w.held = w.pods["w-2"], w.lists(t)["w-2"]
	w.replicas = 2
	w.vanish("w-2")
	return w
}

// given reports whether another worker has its jobs.
func (w *wake) given(t *testing.T) bool {
	t.Helper()
	lists := w.lists(t)
	return slices.Contains(slices.Concat(lists["w-0"], lists["w-1"]), w.held[0])
}

func TestAProcessThatRenewsItsLeaseKeepsItsJobs(t *testing.T) {
	l := newLeader(1)
	w := waking(t, l)
	w.second(t, l)
	w.second(t, l)
	for n := range 60 {
		made := w.second(t, l)
		if w.given(t) {
			t.Fatalf("given away after %d s:\n%s", n, w.story())
		}
		if made.Again == 0 || made.Again > leaseTime/2 {
			t.Errorf("looks again in %s", made.Again)
		}
		if len(made.Waiting) != 1 || made.Waiting[0].Worker != "w-2" || n > 0 && !strings.HasSuffix(made.Waiting[0].Reason, "it is still renewed") {
			t.Errorf("waits for %+v", made.Waiting)
		}
	}
}

// A leader that has never seen the Lease renewed frees the jobs as well.
func TestALeaseThatHasRunOutSetsItsJobsFree(t *testing.T) {
	for name, succeed := range map[string]bool{"by the same leader": false, "by the next leader": true} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(1)
			w := waking(t, l)
			for range 10 {
				w.second(t, l)
			}
			if succeed {
				l = newLeader(2)
			}
			w.ghost.cut = true
			seconds, said := 0, ""
			for ; !w.given(t) && seconds < 60; seconds++ {
				if made := w.second(t, l); len(made.Waiting) > 0 {
					said = made.Waiting[0].Reason
				}
			}
			if least := int(lease.TakeoverDelay(leaseTime) / time.Second); seconds < least || seconds > least+3 {
				t.Errorf("given away %d s after the last renewal", seconds)
			}
			if !strings.Contains(said, `pod u3 is gone, but holds Lease "swarm-worker-w-2"`) || !strings.Contains(said, "until about ") {
				t.Errorf("said %q", said)
			}
			w.settle(t, l)
		})
	}
}

func TestASightingGoesByWhatWasSeen(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(seconds int, version, holder string) sighting {
		moment := begun.Add(time.Duration(seconds) * time.Second)
		return sighting{version: version, holder: holder, duration: 15 * time.Second, since: moment, checked: moment}
	}
	first := sighting{}.saw(at(0, "1", "a"))
	for reason, c := range map[string]struct {
		seen    sighting
		pod     string
		shadows bool
	}{
		"there is no Lease":                      {sighting{}.saw(sighting{checked: begun}), "", false},
		"it was seen just now":                   {first, "", true},
		"it is as it was":                        {first.saw(at(16, "1", "a")), "", true},
		"it is as it was for all of its time":    {first.saw(at(17, "1", "a")), "", false},
		"it was renewed at the last moment":      {first.saw(at(17, "2", "a")), "", true},
		"it was given back":                      {first.saw(at(1, "2", "")), "", false},
		"it was deleted":                         {first.saw(sighting{checked: begun.Add(time.Second)}), "", false},
		"it is that of the pod that is there":    {first, "a", false},
		"it is that of the pod before":           {first, "b", true},
		"the pod that is there has taken it now": {first.saw(at(1, "2", "b")), "b", false},
	} {
		var present *corev1.Pod
		if c.pod != "" {
			present = &corev1.Pod{}
			present.UID = types.UID(c.pod)
		}
		if got := c.seen.shadows(present); got != c.shadows {
			t.Errorf("%s: a worker may live on: %t", reason, got)
		}
	}
	if !first.saw(at(1, "2", "a")).renewed || first.saw(at(1, "2", "b")).renewed || first.renewed {
		t.Error("renewed by whom")
	}
}

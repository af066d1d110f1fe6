package workerpool

import (
	"testing"
	"time"
)

// newPerWorkerCluster returns a settled pool whose workers have ConfigMaps of their own.
func newPerWorkerCluster(t *testing.T, jobs, workers int) (*fakeCluster, *leader) {
	t.Helper()
	c, l := newFakeCluster(jobs, workers), newLeader(1)
	withPerWorkerLayout(c.pool)
	c.admissionEnabled = true
	c.converge(t, l)
	return c, l
}

// The ConfigMap of one worker is deleted, while or before another leader takes over. The worker keeps its jobs, which no other may get.
func TestWorkerHoldsItsJobsThoughItsConfigMapIsDeleted(t *testing.T) {
	for reason, another := range map[string]bool{"of the same leader": false, "of another leader": true} {
		t.Run(reason, func(t *testing.T) {
			c, l := newPerWorkerCluster(t, 9, 2)
			if another {
				l = newLeader(2)
			}
			c.deleteConfigMap(c.pool.ConfigNameOf("w-0"))
			c.pods["w-0"].silent = true
			c.replicas = 3 // so that each worker gives up a job
			c.createMissingPods()
			c.pods["w-2"].setReady(true, c.now)
			for range 30 {
				c.advance(time.Second)
				for _, worker := range []string{"w-1", "w-2"} {
					c.syncFile(c.pods[worker])
					c.loadFile(c.pods[worker])
				}
				c.reconcile(l, unlimitedWrites)
				c.requireOneOwner(t)
			}
			if len(c.pods["w-2"].runningJobs) == 0 {
				t.Errorf("what is free was not given out:\n%s", c.dump())
			}
			c.converge(t, l)
		})
	}
}

// A stable pool gets an identical ConfigMap again, and the others are not modified.
func TestDeletedConfigMapOfAWorkerIsRestored(t *testing.T) {
	c, l := newPerWorkerCluster(t, 9, 3)
	before, others := c.publishedFiles(), c.server.configs[c.pool.ConfigNameOf("w-1")].ResourceVersion
	c.deleteConfigMap(c.pool.ConfigNameOf("w-0"))
	c.reconcile(l, unlimitedWrites)
	if after := c.publishedFiles(); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
	if got := c.server.configs[c.pool.ConfigNameOf("w-1")].ResourceVersion; got != others {
		t.Error("the ConfigMap of another worker was written")
	}
}

// A worker joins, and the config is deleted before it was granted anything. Its planned jobs are still held by others.
func TestNewWorkerIsGrantedNothingByARestoredConfig(t *testing.T) {
	for reason, change := range map[string]func(*fakeCluster){"Shared": func(*fakeCluster) {},
		"PerWorker": func(c *fakeCluster) { withPerWorkerLayout(c.pool) }} {
		t.Run(reason, func(t *testing.T) {
			c, l := newFakeCluster(6, 2), newLeader(1)
			change(c)
			c.converge(t, l)
			c.replicas = 3
			c.createMissingPods()
			c.pods["w-2"].setReady(true, c.now)
			c.reconcile(l, 1) // the leader dies when the revision is stored
			for name := range c.server.configs {
				c.deleteConfigMap(name)
			}
			c.reconcile(newLeader(2), unlimitedWrites)
			c.syncFile(c.pods["w-2"])
			c.loadFile(c.pods["w-2"])
			c.requireOneOwner(t)
			c.converge(t, newLeader(3))
		})
	}
}

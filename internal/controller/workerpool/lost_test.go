package workerpool

import (
	"testing"
	"time"
)

// ofEach returns a settled pool whose workers have ConfigMaps of their own.
func ofEach(t *testing.T, jobs, workers int) (*cluster, *leader) {
	t.Helper()
	c, l := newCluster(jobs, workers), newLeader(1)
	perWorker(c.pool)
	c.admits = true
	c.settle(t, l)
	return c, l
}

// The ConfigMap of one worker is deleted, while or before another leader takes over. The worker keeps its jobs, which no other may get.
func TestWorkerHoldsItsJobsThoughItsConfigMapIsDeleted(t *testing.T) {
	for reason, another := range map[string]bool{"of the same leader": false, "of another leader": true} {
		t.Run(reason, func(t *testing.T) {
			c, l := ofEach(t, 9, 2)
			if another {
				l = newLeader(2)
			}
			c.lose(c.pool.ConfigNameOf("w-0"))
			c.pods["w-0"].unheeding = true
			c.replicas = 3 // so that each worker gives up a job
			c.raise()
			c.pods["w-2"].ready(true, c.now)
			for range 30 {
				c.pass(time.Second)
				for _, worker := range []string{"w-1", "w-2"} {
					c.mount(c.pods[worker])
					c.load(c.pods[worker])
				}
				c.reconcile(l, lives)
				c.owners(t)
			}
			if len(c.pods["w-2"].running) == 0 {
				t.Errorf("what is free was not given out:\n%s", c.story())
			}
			c.settle(t, l)
		})
	}
}

// A stable pool gets an identical ConfigMap again, and the others are not modified.
func TestDeletedConfigMapOfAWorkerIsRestored(t *testing.T) {
	c, l := ofEach(t, 9, 3)
	before, others := c.file(), c.server.configs[c.pool.ConfigNameOf("w-1")].ResourceVersion
	c.lose(c.pool.ConfigNameOf("w-0"))
	c.reconcile(l, lives)
	if after := c.file(); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
	if got := c.server.configs[c.pool.ConfigNameOf("w-1")].ResourceVersion; got != others {
		t.Error("the ConfigMap of another worker was written")
	}
}

// A worker joins, and the config is deleted before it was granted anything. Its planned jobs are still held by others.
func TestNewWorkerIsGrantedNothingByARestoredConfig(t *testing.T) {
	for reason, change := range map[string]func(*cluster){"Shared": func(*cluster) {}, "PerWorker": func(c *cluster) { perWorker(c.pool) }} {
		t.Run(reason, func(t *testing.T) {
			c, l := newCluster(6, 2), newLeader(1)
			change(c)
			c.settle(t, l)
			c.replicas = 3
			c.raise()
			c.pods["w-2"].ready(true, c.now)
			c.reconcile(l, 1) // the leader dies when the revision is stored
			for name := range c.server.configs {
				c.lose(name)
			}
			c.reconcile(newLeader(2), lives)
			c.mount(c.pods["w-2"])
			c.load(c.pods["w-2"])
			c.owners(t)
			c.settle(t, newLeader(3))
		})
	}
}

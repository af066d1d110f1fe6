package workerpool

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A converged pool whose config is deleted gets the same file again, including workers whose lists the last revision did not change.
func TestDeletedConfigIsRestoredToTheByte(t *testing.T) {
	c, l := newFakeCluster(4, 2), newLeader(1)
	c.converge(t, l)
	c.setJobs(5) // one worker gets another job
	c.converge(t, l)
	before := c.publishedFiles()
	c.deleteConfigMap(c.pool.ConfigName())
	c.reconcile(l, unlimitedWrites)
	if after := c.publishedFiles(); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
}

// A pool that is rolled back has the jobs and the assignment of that revision.
func TestRollbackRestoresAnAssignment(t *testing.T) {
	c, l := newFakeCluster(4, 2), newLeader(1)
	c.converge(t, l)
	first := c.publishedLists(t)
	c.setJobs(7)
	c.converge(t, l)
	c.replicas = 1
	c.converge(t, l)
	c.replicas = 2
	c.converge(t, l)
	c.pool.Spec.RollbackTo = 1
	c.pool.Spec.Jobs = c.pool.Spec.Jobs[:4] // now equal to the revision
	c.converge(t, l)
	if got := c.publishedLists(t); !maps.EqualFunc(got, first, func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}) {
		t.Errorf("got %v, want %v", got, first)
	}
	number := c.server.newestNumber()
	c.setJobs(9)
	if c.reconcile(l, unlimitedWrites); c.server.newestNumber() != number {
		t.Error("a new list of jobs changes a pool that is rolled back")
	}
}

func TestRollbackToARevisionThatIsGoneChangesNothing(t *testing.T) {
	c, l := newFakeCluster(4, 2), newLeader(1)
	c.converge(t, l)
	c.pool.Spec.RollbackTo = 9
	plan, _ := c.reconcile(l, unlimitedWrites)
	if plan.Problem == nil || plan.Problem.Reason != v1alpha1.ReasonRevisionNotFound ||
		!strings.Contains(plan.Problem.Message, "choose one of 1") {
		t.Errorf("problem %+v", plan.Problem)
	}
	if len(plan.ConfigMaps) > 0 || plan.NewRevision != nil {
		t.Errorf("publishes %v", plan.ConfigMaps)
	}
}

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
	c, l := newCluster(4, 2), newLeader(1)
	c.settle(t, l)
	c.want(5) // one worker gets another job
	c.settle(t, l)
	before := c.file()
	c.lose(c.pool.ConfigName())
	c.reconcile(l, lives)
	if after := c.file(); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
}

// A pool that is rolled back has the jobs and the assignment of that revision.
func TestRollbackRestoresAnAssignment(t *testing.T) {
	c, l := newCluster(4, 2), newLeader(1)
	c.settle(t, l)
	first := c.lists(t)
	c.want(7)
	c.settle(t, l)
	c.replicas = 1
	c.settle(t, l)
	c.replicas = 2
	c.settle(t, l)
	c.pool.Spec.RollbackTo = 1
	c.pool.Spec.Jobs = c.pool.Spec.Jobs[:4] // now equal to the revision
	c.settle(t, l)
	if got := c.lists(t); !maps.EqualFunc(got, first, func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}) {
		t.Errorf("got %v, want %v", got, first)
	}
	number := c.server.newest()
	c.want(9)
	if c.reconcile(l, lives); c.server.newest() != number {
		t.Error("a new list of jobs changes a pool that is rolled back")
	}
}

func TestRollbackToARevisionThatIsGoneChangesNothing(t *testing.T) {
	c, l := newCluster(4, 2), newLeader(1)
	c.settle(t, l)
	c.pool.Spec.RollbackTo = 9
	made, _ := c.reconcile(l, lives)
	if made.Problem == nil || made.Problem.reason != v1alpha1.ReasonRevisionNotFound || !strings.Contains(made.Problem.message, "choose one of 1") {
		t.Errorf("problem %+v", made.Problem)
	}
	if len(made.Publish) > 0 || made.Revision != nil {
		t.Errorf("publishes %v", made.Publish)
	}
}

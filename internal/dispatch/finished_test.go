package dispatch

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// finishes runs a task to its end and stores that. It returns the object from before.
func (d *desk) finishes(t *testing.T) (before, after *v1alpha1.Task) {
	t.Helper()
	d.rule("s")
	a := d.joins(t, "a", "s", 1)
	task := d.task("t", "s")
	before = task.DeepCopy()
	d.steps()
	d.concludes(a, d.assigned()[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
	task.Status.Phase, task.Status.Epoch = v1alpha1.TaskCompleted, d.Observe(task, Brief{}).Ended.Epoch
	d.stores(task)
	d.Settle(task, nil)
	d.credit(a, 2)
	d.sent = nil
	return before, task
}

// A reconcile may read a cache that does not know yet that its task is finished.
func TestFinishedTaskIsNotRunAgainFromACacheThatIsBehind(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		cached, _ := d.finishes(t)
		time.Sleep(24 * time.Hour)
		if view := d.Observe(cached, Brief{}); !view.Stale {
			t.Errorf("want the object to be stale: %+v", view)
		}
		d.steps()
		if given := d.assigned(); len(given) != 0 {
			t.Errorf("sent again: %v", given)
		}
	})
}

// Once the cache shows the end of a task, or no longer has it, nothing needs to be remembered.
func TestFinishedTaskIsForgottenWhenTheCacheShowsItsEnd(t *testing.T) {
	for name, shows := range map[string]func(*desk, *v1alpha1.Task){
		"it is finished": func(d *desk, task *v1alpha1.Task) { d.Observe(task, Brief{}) },
		"it is gone":     func(d *desk, task *v1alpha1.Task) { d.Forget(nameOf(task)) },
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			_, stored := d.finishes(t)
			if !d.isFinished(stored) {
				t.Fatal("not remembered")
			}
			shows(d, stored)
			if len(d.finished) > 0 {
				t.Errorf("%s: still remembered", name)
			}
		})
	}
}

func TestTaskCreatedAnewUnderTheNameOfAFinishedOneIsRun(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		cached, _ := d.finishes(t)
		again := cached.DeepCopy()
		again.UID = "another"
		d.stores(again)
		d.Observe(again, Brief{})
		d.steps()
		if given := d.assigned(); len(given) != 1 || given[0].GetTaskUid() != "another" {
			t.Errorf("want one assignment: %v", given)
		}
	})
}

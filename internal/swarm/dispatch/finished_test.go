package dispatch

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// completeTask runs a task to its end and stores that. It returns the object from before.
func (f *fixture) completeTask(t *testing.T) (before, after *v1alpha1.Task) {
	t.Helper()
	f.setSwarms("s")
	a := f.joinAgent(t, "a", "s", 1)
	task := f.createTask("t", "s")
	before = task.DeepCopy()
	f.runStep()
	f.sendResult(a, f.takeAssignments()[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
	task.Status.Phase, task.Status.Epoch = v1alpha1.TaskCompleted, f.Observe(task, TaskInput{}).End.Epoch
	f.bumpVersion(task)
	f.MarkStored(task, nil)
	f.grantCredit(a, 2)
	f.sent = nil
	return before, task
}

// A reconcile may read a cache that does not know yet that its task is finished.
func TestFinishedTaskIsNotRunAgainFromACacheThatIsBehind(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		cached, _ := f.completeTask(t)
		time.Sleep(24 * time.Hour)
		if view := f.Observe(cached, TaskInput{}); !view.Stale {
			t.Errorf("want the object to be stale: %+v", view)
		}
		f.requireNoneAssigned(t) // not again
	})
}

// Once the cache shows the end of a task, or no longer has it, nothing needs to be remembered.
func TestFinishedTaskIsForgottenWhenTheCacheShowsItsEnd(t *testing.T) {
	for name, shows := range map[string]func(*fixture, *v1alpha1.Task){
		"it is finished": func(f *fixture, task *v1alpha1.Task) { f.Observe(task, TaskInput{}) },
		"it is gone":     func(f *fixture, task *v1alpha1.Task) { f.Forget(nameOf(task)) },
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			_, stored := f.completeTask(t)
			if !f.isFinished(stored) {
				t.Fatal("not remembered")
			}
			shows(f, stored)
			if len(f.finished) > 0 {
				t.Errorf("%s: still remembered", name)
			}
		})
	}
}

func TestTaskCreatedAnewUnderTheNameOfAFinishedOneIsRun(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		cached, _ := f.completeTask(t)
		again := cached.DeepCopy()
		again.UID = "another"
		f.bumpVersion(again)
		f.Observe(again, TaskInput{})
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetTaskUid() != "another" {
			t.Errorf("want one assignment: %v", attempts)
		}
	})
}

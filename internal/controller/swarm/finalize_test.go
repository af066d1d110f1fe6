package swarm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

func TestSwarmWithNothingLeftIsCleanedAtOnce(t *testing.T) {
	r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, newTask("other", "u"))
	if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Cleaned() {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := remainingTasks(t, e.client); len(left) != 1 {
		t.Errorf("left %v: tasks of other swarms stay", left)
	}
	if swarm.Status.Phase == v1alpha1.SwarmPhaseTerminating {
		t.Error("wrote a status although nothing is left to wait for")
	}
}

func TestDeletedSwarmDeletesItsTasksAndNoOthers(t *testing.T) {
	r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, newTask("research", "a"), newTask("research", "b"), newTask("other", "u"))
	if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Cleaned() {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := remainingTasks(t, e.client); len(left) != 1 || left[0] != "u" {
		t.Errorf("left %v, want [u]", left)
	}
}

// A swarm may have hundreds of thousands of tasks. A reconcile that takes minutes counts as hanging.
func TestDeletedSwarmDeletesItsTasksInBatches(t *testing.T) {
	var objects []client.Object
	for n := range 2*deleteBatchSize + 1 {
		objects = append(objects, newTask("research", fmt.Sprintf("t-%03d", n)))
	}
	r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, objects...)
	for _, want := range []struct {
		left int
		says kit.Cleanup
	}{
		{deleteBatchSize + 1, kit.PendingFor(deleteBatchPause, "DeletingTasks")}, {1, kit.PendingFor(deleteBatchPause, "DeletingTasks")},
		{0, kit.Cleaned()},
	} {
		if got, err := r.finalize(t.Context(), swarm); err != nil || got != want.says {
			t.Errorf("got %+v, %v, want %+v", got, err, want.says)
		}
		if left := remainingTasks(t, e.client); len(left) != want.left {
			t.Fatalf("%d tasks are left, want %d", len(left), want.left)
		}
	}
}

// Tasks held by another controller are not part of the batch: the others are still deleted.
func TestTasksWithFinalizersDoNotFillTheBatch(t *testing.T) {
	objects := []client.Object{newTask("research", "z")}
	for n := range deleteBatchSize {
		objects = append(objects, newTask("research", fmt.Sprintf("t-%03d", n), "example.com/archive"))
	}
	r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, objects...)
	for _, want := range []kit.Cleanup{kit.PendingFor(deleteBatchPause, "DeletingTasks"), kit.Pending("Draining"), kit.Pending("Draining")} {
		if got, err := r.finalize(t.Context(), swarm); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if left := remainingTasks(t, e.client); len(left) != deleteBatchSize || slices.Contains(left, "z") {
		t.Errorf("left %v", left)
	}
}

func TestDeletedSwarmStaysWhileAnAgentHoldsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := newTask("research", "a")
		r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, task)
		attempt := e.startTask(t, task)
		for range 3 {
			if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
				t.Fatalf("got %+v, %v: the agent still works", got, err)
			}
		}
		if left := remainingTasks(t, e.client); len(left) != 0 {
			t.Errorf("left %v", left)
		}
		e.dispatcher.Forget(client.ObjectKeyFromObject(task))
		e.finishAttempt(attempt)
		if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Cleaned() {
			t.Errorf("got %+v, %v: nothing runs any more", got, err)
		}
	})
}

// A program inside an agent can claim forever that an attempt is running.
func TestDeletedSwarmDoesNotWaitForAnAgentForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := newTask("research", "a")
		r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, task)
		swarm.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		e.startTask(t, task)
		time.Sleep(drainTimeout)
		if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
			t.Fatalf("got %+v, %v: the agent still works", got, err)
		}
		time.Sleep(time.Second)
		if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Cleaned() {
			t.Errorf("got %+v, %v after the deadline", got, err)
		}
	})
}

// fixedSkew is a clock that is ahead by a fixed duration.
type fixedSkew time.Duration

func (s fixedSkew) Skew() (ahead time.Duration, reliable bool) {
	return time.Duration(s), time.Duration(s).Abs() <= 5*time.Second
}

// The deletion time is the API server's. An operator whose clock is ahead must not give up running attempts.
func TestDeletedSwarmWaitsForAClockThatIsRight(t *testing.T) {
	for ahead, want := range map[time.Duration]kit.Cleanup{
		0: kit.Cleaned(), 5 * time.Second: kit.Cleaned(), time.Hour: kit.Pending("Draining"), -time.Hour: kit.Pending("Draining"),
	} {
		synctest.Test(t, func(t *testing.T) {
			task := newTask("research", "a")
			r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, task)
			e.startTask(t, task)
			time.Sleep(drainTimeout + time.Second)
			r.clock = fixedSkew(ahead)
			if got, err := r.finalize(t.Context(), swarm); err != nil || got != want {
				t.Errorf("%s ahead: got %+v, %v, want %+v", ahead, got, err, want)
			}
		})
	}
}

func TestDeletedSwarmStaysWhileATaskHasFinalizers(t *testing.T) {
	r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, newTask("research", "a"), newTask("research", "b", "example.com/archive"),
		newTask("research", "c"))
	for range 2 { // the second time, the task is already being deleted
		if got, err := r.finalize(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
			t.Errorf("got %+v, %v: another controller has not let go of a task", got, err)
		}
	}
	if left := remainingTasks(t, e.client); len(left) != 1 || left[0] != "b" {
		t.Errorf("left %v, want [b]", left)
	}
}

func TestDeletedSwarmAssignsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, next := newTask("research", "a"), newTask("research", "b")
		r, e, swarm := newDeletingSwarm(t, interceptor.Funcs{}, first)
		e.startTask(t, first)
		if _, err := r.finalize(t.Context(), swarm); err != nil {
			t.Fatal(err)
		}
		e.dispatcher.Observe(next, dispatch.TaskInput{})
		e.runDispatcher()
		view := e.dispatcher.Observe(next, dispatch.TaskInput{})
		if got := e.assignments(); len(got) != 1 || view.Wait == nil || view.Wait.Reason != v1alpha1.ReasonTerminating {
			t.Errorf("assigned %v, waits %+v", got, view.Wait)
		}
	})
}

func TestDeletionShowsWhatItWaitsFor(t *testing.T) {
	patches := 0
	count := interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, part string, object client.Object,
		patch client.Patch, options ...client.SubResourcePatchOption) error {
		patches++
		return c.SubResource(part).Patch(ctx, object, patch, options...)
	}}
	r, e, swarm := newDeletingSwarm(t, count, newTask("research", "a", "example.com/archive"))
	for range 3 {
		if _, err := r.finalize(t.Context(), swarm); err != nil {
			t.Fatal(err)
		}
	}
	stored := &v1alpha1.Swarm{}
	if err := e.client.Get(t.Context(), client.ObjectKeyFromObject(swarm), stored); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(stored.Status.Conditions, v1alpha1.ConditionReady)
	if stored.Status.Phase != v1alpha1.SwarmPhaseTerminating || ready == nil || ready.Status != metav1.ConditionFalse ||
		ready.Reason != string(v1alpha1.ReasonTerminating) {
		t.Errorf("phase %q, Ready %+v", stored.Status.Phase, ready)
	}
	if patches != 1 {
		t.Errorf("%d status writes for one piece of news", patches)
	}
}

func TestDeletionThatFailsIsTriedAgain(t *testing.T) {
	refused := errors.New("refused")
	for reason, hooks := range map[string]interceptor.Funcs{
		"tasks cannot be listed": {List: func(context.Context, client.WithWatch, client.ObjectList,
			...client.ListOption) error {
			return refused
		}},
		"a task cannot be deleted": {Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return refused
		}},
		"the status cannot be written": {SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
			...client.SubResourcePatchOption) error {
			return refused
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			r, _, swarm := newDeletingSwarm(t, hooks, newTask("research", "a"))
			if got, err := r.finalize(t.Context(), swarm); !errors.Is(err, refused) || got == kit.Cleaned() {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// A task that was deleted and recreated under its name since the cache was read must not be deleted.
func TestTasksAreDeletedByTheirUID(t *testing.T) {
	named := types.UID("")
	hooks := interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
		if conditions := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions; conditions != nil && conditions.UID != nil {
			named = *conditions.UID
		}
		return nil
	}}
	r, _, swarm := newDeletingSwarm(t, hooks, newTask("research", "a"))
	if _, err := r.finalize(t.Context(), swarm); err != nil || named != "uid-a" {
		t.Errorf("deleted whatever has UID %q, %v", named, err)
	}
}

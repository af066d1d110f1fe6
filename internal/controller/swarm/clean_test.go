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
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

func TestSwarmWithNothingLeftIsCleanedAtOnce(t *testing.T) {
	r, e, swarm := deleting(t, interceptor.Funcs{}, taskOf("other", "u"))
	if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Cleaned() {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := remaining(t, e.cluster); len(left) != 1 {
		t.Errorf("left %v: tasks of other swarms stay", left)
	}
	if swarm.Status.Phase == v1alpha1.SwarmPhaseTerminating {
		t.Error("wrote a status although nothing is left to wait for")
	}
}

func TestDeletedSwarmDeletesItsTasksAndNoOthers(t *testing.T) {
	r, e, swarm := deleting(t, interceptor.Funcs{}, taskOf("research", "a"), taskOf("research", "b"), taskOf("other", "u"))
	if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Cleaned() {
		t.Errorf("got %+v, %v", got, err)
	}
	if left := remaining(t, e.cluster); len(left) != 1 || left[0] != "u" {
		t.Errorf("left %v, want [u]", left)
	}
}

// A swarm may have hundreds of thousands of tasks. A reconcile that takes minutes counts as hanging.
func TestDeletedSwarmDeletesItsTasksInBatches(t *testing.T) {
	var objects []client.Object
	for n := range 2*cleanBatch + 1 {
		objects = append(objects, taskOf("research", fmt.Sprintf("t-%03d", n)))
	}
	r, e, swarm := deleting(t, interceptor.Funcs{}, objects...)
	for _, want := range []struct {
		left int
		says kit.Cleanup
	}{
		{cleanBatch + 1, kit.PendingFor(cleanPause, "DeletingTasks")}, {1, kit.PendingFor(cleanPause, "DeletingTasks")}, {0, kit.Cleaned()},
	} {
		if got, err := r.clean(t.Context(), swarm); err != nil || got != want.says {
			t.Errorf("got %+v, %v, want %+v", got, err, want.says)
		}
		if left := remaining(t, e.cluster); len(left) != want.left {
			t.Fatalf("%d tasks are left, want %d", len(left), want.left)
		}
	}
}

// Tasks held by another controller are not part of the batch: the others are still deleted.
func TestHeldTasksDoNotFillTheBatch(t *testing.T) {
	objects := []client.Object{taskOf("research", "z")}
	for n := range cleanBatch {
		objects = append(objects, taskOf("research", fmt.Sprintf("t-%03d", n), "example.com/archive"))
	}
	r, e, swarm := deleting(t, interceptor.Funcs{}, objects...)
	for _, want := range []kit.Cleanup{kit.PendingFor(cleanPause, "DeletingTasks"), kit.Pending("Draining"), kit.Pending("Draining")} {
		if got, err := r.clean(t.Context(), swarm); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if left := remaining(t, e.cluster); len(left) != cleanBatch || slices.Contains(left, "z") {
		t.Errorf("left %v", left)
	}
}

func TestDeletedSwarmStaysWhileAnAgentHoldsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := taskOf("research", "a")
		r, e, swarm := deleting(t, interceptor.Funcs{}, task)
		attempt := e.run(t, task)
		for range 3 {
			if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
				t.Fatalf("got %+v, %v: the agent still works", got, err)
			}
		}
		if left := remaining(t, e.cluster); len(left) != 0 {
			t.Errorf("left %v", left)
		}
		e.board.Forget(client.ObjectKeyFromObject(task))
		e.concludes(attempt)
		if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Cleaned() {
			t.Errorf("got %+v, %v: nothing runs any more", got, err)
		}
	})
}

// A program inside an agent can claim forever that an attempt is running.
func TestDeletedSwarmDoesNotWaitForAnAgentForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := taskOf("research", "a")
		r, e, swarm := deleting(t, interceptor.Funcs{}, task)
		swarm.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		e.run(t, task)
		time.Sleep(drainDeadline)
		if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
			t.Fatalf("got %+v, %v: the agent still works", got, err)
		}
		time.Sleep(time.Second)
		if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Cleaned() {
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
			task := taskOf("research", "a")
			r, e, swarm := deleting(t, interceptor.Funcs{}, task)
			e.run(t, task)
			time.Sleep(drainDeadline + time.Second)
			r.clock = fixedSkew(ahead)
			if got, err := r.clean(t.Context(), swarm); err != nil || got != want {
				t.Errorf("%s ahead: got %+v, %v, want %+v", ahead, got, err, want)
			}
		})
	}
}

func TestDeletedSwarmStaysWhileATaskIsHeld(t *testing.T) {
	r, e, swarm := deleting(t, interceptor.Funcs{}, taskOf("research", "a"), taskOf("research", "b", "example.com/archive"),
		taskOf("research", "c"))
	for range 2 { // the second time, the task is already being deleted
		if got, err := r.clean(t.Context(), swarm); err != nil || got != kit.Pending("Draining") {
			t.Errorf("got %+v, %v: another controller has not let go of a task", got, err)
		}
	}
	if left := remaining(t, e.cluster); len(left) != 1 || left[0] != "b" {
		t.Errorf("left %v, want [b]", left)
	}
}

func TestDeletedSwarmGivesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, next := taskOf("research", "a"), taskOf("research", "b")
		r, e, swarm := deleting(t, interceptor.Funcs{}, first)
		e.run(t, first)
		if _, err := r.clean(t.Context(), swarm); err != nil {
			t.Fatal(err)
		}
		e.board.Observe(next, dispatch.TaskInput{})
		e.pass()
		view := e.board.Observe(next, dispatch.TaskInput{})
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
	r, e, swarm := deleting(t, count, taskOf("research", "a", "example.com/archive"))
	for range 3 {
		if _, err := r.clean(t.Context(), swarm); err != nil {
			t.Fatal(err)
		}
	}
	stored := &v1alpha1.Swarm{}
	if err := e.cluster.Get(t.Context(), client.ObjectKeyFromObject(swarm), stored); err != nil {
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
			r, _, swarm := deleting(t, hooks, taskOf("research", "a"))
			if got, err := r.clean(t.Context(), swarm); !errors.Is(err, refused) || got == kit.Cleaned() {
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
	r, _, swarm := deleting(t, hooks, taskOf("research", "a"))
	if _, err := r.clean(t.Context(), swarm); err != nil || named != "uid-a" {
		t.Errorf("deleted whatever has UID %q, %v", named, err)
	}
}

package task

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// The agent never had the attempt, so it does not count towards the limit of hand-backs.
func TestAssignmentThatWasNotDeliveredCostsNothing(t *testing.T) {
	task := &v1alpha1.Task{}
	running(task)
	task.Status.HandBacks = mostHandBacks
	got := plan(task, ended(linkv1.Outcome_OUTCOME_DECLINED, func(end *dispatch.AttemptEnd) { end.Undelivered = true }), noon).Status
	waits := got.Phase == v1alpha1.TaskPending && got.Reason == string(v1alpha1.ReasonNotDelivered)
	if !waits || got.HandBacks != mostHandBacks || got.Epoch != 7 || len(got.AssignedAgents) != 0 {
		t.Errorf("got %+v", got)
	}
}

// Assignments get lost one after the other, on streams that break. The task runs in the end, with at most one attempt per second.
func TestTaskOutlivesAnyNumberOfLostAssignments(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.agent("a").cable.slow(500 * time.Millisecond)
		w.pass(10 * time.Second)
		w.submit("t", work{takes: time.Second})
		uid := string(w.store.get(named("t")).UID)
		for n := range mostHandBacks + 5 {
			before := time.Now()
			w.until(func() bool { return len(w.journal.sentTo(uid)) > n })
			if pause := time.Since(before); n > 0 && pause < time.Second {
				t.Fatalf("assignment %d was sent %v after the last one was lost", n+1, pause)
			}
			w.relink("a")
		}
		w.agent("a").cable.slow(time.Millisecond)
		w.pass(time.Minute)
		w.completes(t, "t", 1)
		if status := w.status("t"); status.HandBacks+status.Retries+status.Reassignments != 0 {
			t.Errorf("it cost something: %+v", status)
		}
	})
}

package task

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// The agent never had the attempt, so it does not count towards the limit of hand-backs.
func TestAssignmentThatWasNotDeliveredCostsNothing(t *testing.T) {
	task := &v1alpha1.Task{}
	setRunning(task)
	task.Status.HandBacks = maxHandBacks
	got := plan(task, endSnapshot(linkv1.Outcome_OUTCOME_DECLINED, func(end *dispatch.AttemptEnd) { end.Undelivered = true }), noon).Status
	waits := got.Phase == v1alpha1.TaskPending && got.Reason == string(v1alpha1.ReasonNotDelivered)
	if !waits || got.HandBacks != maxHandBacks || got.Epoch != 7 || len(got.AssignedAgents) != 0 {
		t.Errorf("got %+v", got)
	}
}

// Assignments get lost one after the other, on streams that break. The task runs in the end, with at most one attempt per second.
func TestTaskOutlivesAnyNumberOfLostAssignments(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.process("a").network.setLatency(500 * time.Millisecond)
		sim.advance(10 * time.Second)
		sim.submit("t", behavior{duration: time.Second})
		uid := string(sim.store.get(namespacedName("t")).UID)
		for n := range maxHandBacks + 5 {
			before := time.Now()
			sim.waitUntil(func() bool { return len(sim.attempts.sentEpochs(uid)) > n })
			if pause := time.Since(before); n > 0 && pause < time.Second {
				t.Fatalf("assignment %d was sent %v after the last one was lost", n+1, pause)
			}
			sim.reconnect("a")
		}
		sim.process("a").network.setLatency(time.Millisecond)
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 1)
		if status := sim.status("t"); status.HandBacks+status.Retries+status.Reassignments != 0 {
			t.Errorf("it cost something: %+v", status)
		}
	})
}

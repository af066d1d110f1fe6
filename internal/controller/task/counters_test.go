package task

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// The API server stores a write and its response is lost: the next reconcile finds the end of the attempt already counted.
func TestRetryIsCountedOnceWhenTheAnswerOfItsWriteIsLost(t *testing.T) {
	for _, lost := range []int{0, 1, 3} {
		simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
			limit := int32(3)
			failing := behavior{duration: 100 * time.Millisecond, outcome: linkv1.Outcome_OUTCOME_FAILED, reason: "CommandFailed"}
			sim.submit("t", failing, func(spec *v1alpha1.TaskSpec) {
				spec.Retry = v1alpha1.TaskRetry{Limit: &limit, InitialSeconds: 1, MaxSeconds: 1}
			})
			sim.faults.setFailures(0, lost)
			sim.advance(2 * time.Minute)
			status := sim.status("t")
			if runs := sim.attempts.runsOf("t"); len(runs) != 4 || status.Retries != 3 || status.Reason != string(v1alpha1.ReasonRetriesExhausted) {
				t.Errorf("%d answers lost: %+v\n%s", lost, status, sim.describe())
			}
		})
	}
}

func TestReassignmentIsCountedOnceWhenTheAnswerOfItsWriteIsLost(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 30 * time.Second})
		for range 3 {
			sim.advance(3 * time.Second)
			sim.faults.setFailures(0, 1)
			sim.restartProcess("a")
			sim.waitUntil(func() bool { return sim.status("t").Phase == v1alpha1.TaskPending || sim.status("t").Phase.Final() })
		}
		sim.advance(2 * time.Minute)
		if status := sim.status("t"); status.Reassignments != 3 {
			t.Errorf("%+v\n%s", status, sim.describe())
		}
		sim.assertCompleted(t, "t", 4)
	})
}

// The stored end of an attempt is not written again, whatever it was.
func TestEndThatIsStoredChangesNothing(t *testing.T) {
	for name, snapshot := range map[string]snapshot{
		"failed":      endSnapshot(linkv1.Outcome_OUTCOME_FAILED, withReason("Broken")),
		"lost":        endSnapshot(0, lostEnd),
		"handed back": endSnapshot(linkv1.Outcome_OUTCOME_HANDED_BACK),
	} {
		t.Run(name, func(t *testing.T) {
			task := &v1alpha1.Task{}
			setRunning(task)
			task.Status = plan(task, snapshot, noon).Status
			again := plan(task, snapshot, noon.Add(time.Second))
			if want := task.Status; again.Status.Retries != want.Retries || again.Status.Reassignments != want.Reassignments ||
				again.Status.Message != want.Message || !again.Status.NextRetryTime.Equal(want.NextRetryTime) || again.Event != "" {
				t.Errorf("got %+v, stored %+v", again.Status, want)
			}
		})
	}
}

// A stored loss does not prevent the success of the same attempt, or the user's request, from being stored.
func TestEndThatIsStoredGivesWayToAFinalOne(t *testing.T) {
	task := &v1alpha1.Task{}
	setRunning(task)
	task.Status = plan(task, endSnapshot(0, lostEnd), noon).Status
	for phase, snapshot := range map[v1alpha1.TaskPhase]snapshot{
		v1alpha1.TaskCompleted: endSnapshot(linkv1.Outcome_OUTCOME_SUCCEEDED),
		v1alpha1.TaskFailed:    endSnapshot(linkv1.Outcome_OUTCOME_BAD_INPUT),
		v1alpha1.TaskCancelled: endSnapshot(0, lostEnd).withStop(cancelRequest),
	} {
		if got := plan(task, snapshot, noon); got.Status.Phase != phase || got.Status.Reassignments != 1 {
			t.Errorf("want %s: %+v", phase, got.Status)
		}
	}
}

// An attempt newer than the stored one is counted.
func TestEndOfALaterAttemptIsCounted(t *testing.T) {
	task := &v1alpha1.Task{}
	setRunning(task)
	task.Status = plan(task, endSnapshot(0, lostEnd), noon).Status
	later := endSnapshot(0, lostEnd, func(end *dispatch.AttemptEnd) { end.Epoch, end.Attempt = 8, 2 })
	if got := plan(task, later, noon); got.Status.Reassignments != 2 || got.Status.Epoch != 8 {
		t.Errorf("%+v", got.Status)
	}
}

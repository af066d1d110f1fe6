package task

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// The API server stores a write and its response is lost: the next reconcile finds the end of the attempt already counted.
func TestRetryIsCountedOnceWhenTheAnswerOfItsWriteIsLost(t *testing.T) {
	for _, lost := range []int{0, 1, 3} {
		inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
			limit := int32(3)
			fails := work{takes: 100 * time.Millisecond, outcome: linkv1.Outcome_OUTCOME_FAILED, reason: "CommandFailed"}
			w.submit("t", fails, func(spec *v1alpha1.TaskSpec) {
				spec.Retry = v1alpha1.TaskRetry{Limit: &limit, InitialSeconds: 1, MaxSeconds: 1}
			})
			w.faults.set(0, lost)
			w.pass(2 * time.Minute)
			status := w.status("t")
			if runs := w.journal.of("t"); len(runs) != 4 || status.Retries != 3 || status.Reason != string(v1alpha1.ReasonRetriesExhausted) {
				t.Errorf("%d answers lost: %+v\n%s", lost, status, w.describe())
			}
		})
	}
}

func TestReassignmentIsCountedOnceWhenTheAnswerOfItsWriteIsLost(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 30 * time.Second})
		for range 3 {
			w.pass(3 * time.Second)
			w.faults.set(0, 1)
			w.restart("a")
			w.until(func() bool { return w.status("t").Phase == v1alpha1.TaskPending || w.status("t").Phase.Final() })
		}
		w.pass(2 * time.Minute)
		if status := w.status("t"); status.Reassignments != 3 {
			t.Errorf("%+v\n%s", status, w.describe())
		}
		w.completes(t, "t", 4)
	})
}

// The stored end of an attempt is not written again, whatever it was.
func TestEndThatIsStoredChangesNothing(t *testing.T) {
	for name, world := range map[string]world{
		"failed":      ended(linkv1.Outcome_OUTCOME_FAILED, because("Broken")),
		"lost":        ended(0, lost),
		"handed back": ended(linkv1.Outcome_OUTCOME_HANDED_BACK),
	} {
		t.Run(name, func(t *testing.T) {
			task := &v1alpha1.Task{}
			running(task)
			task.Status = plan(task, world, noon).Status
			again := plan(task, world, noon.Add(time.Second))
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
	running(task)
	task.Status = plan(task, ended(0, lost), noon).Status
	for phase, world := range map[v1alpha1.TaskPhase]world{
		v1alpha1.TaskCompleted: ended(linkv1.Outcome_OUTCOME_SUCCEEDED),
		v1alpha1.TaskFailed:    ended(linkv1.Outcome_OUTCOME_BAD_INPUT),
		v1alpha1.TaskCancelled: ended(0, lost).stopped(cancels),
	} {
		if got := plan(task, world, noon); got.Status.Phase != phase || got.Status.Reassignments != 1 {
			t.Errorf("want %s: %+v", phase, got.Status)
		}
	}
}

// An attempt newer than the stored one is counted.
func TestEndOfALaterAttemptIsCounted(t *testing.T) {
	task := &v1alpha1.Task{}
	running(task)
	task.Status = plan(task, ended(0, lost), noon).Status
	later := ended(0, lost, func(end *dispatch.AttemptEnd) { end.Epoch, end.Attempt = 8, 2 })
	if got := plan(task, later, noon); got.Status.Reassignments != 2 || got.Status.Epoch != 8 {
		t.Errorf("%+v", got.Status)
	}
}

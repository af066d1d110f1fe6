package task

import (
	"bytes"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// desire sets a user's wish for task t.
func (w *cluster) desire(what v1alpha1.TaskDesire) {
	w.store.desire(named("t"), func(spec *v1alpha1.TaskSpec) { spec.Desired = what })
}

func TestCancelledTaskEndsWhenItsAttemptHas(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 30 * time.Second, stops: 2 * time.Second})
		w.pass(3 * time.Second)
		w.desire(v1alpha1.TaskCancel)
		w.pass(time.Second)
		if w.status("t").Phase != v1alpha1.TaskRunning {
			t.Errorf("the attempt has not stopped yet: %+v", w.status("t"))
		}
		w.pass(3 * time.Second)
		runs := w.journal.of("t")
		if w.status("t").Phase != v1alpha1.TaskCancelled || len(runs) != 1 || runs[0].outcome != linkv1.Outcome_OUTCOME_CANCELLED.String() {
			t.Error(w.describe())
		}
	})
}

func TestCancelledTaskWhoseAgentIsLostEndsAfterLeaseAndMargin(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 30 * time.Second})
		w.pass(3 * time.Second)
		w.cutSeen(w.agent(w.journal.of("t")[0].agent))
		w.desire(v1alpha1.TaskCancel)
		w.pass(lease / 2)
		if w.status("t").Phase != v1alpha1.TaskRunning {
			t.Errorf("it is unknown whether it has stopped: %+v", w.status("t"))
		}
		w.pass(lapse)
		if w.status("t").Phase != v1alpha1.TaskCancelled || len(w.journal.of("t")) != 1 {
			t.Error(w.describe())
		}
	})
}

func TestSuspendedTaskIsHandedBackAndGoesOnWhenItMay(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 10 * time.Second})
		w.pass(3 * time.Second)
		w.desire(v1alpha1.TaskSuspend)
		w.pass(20 * time.Second)
		status := w.status("t")
		if status.Phase != v1alpha1.TaskPending || status.Reason != string(v1alpha1.ReasonSuspended) || len(status.AssignedAgents) != 0 {
			t.Fatalf("not suspended: %+v", status)
		}
		if orders := w.journal.cancelsOf("t"); len(orders) != 1 || !orders[0].GetHandBack() {
			t.Errorf("want one order to hand back: %v", orders)
		}
		w.desire(v1alpha1.TaskRun)
		w.pass(20 * time.Second)
		w.completes(t, "t", 2)
		if w.status("t").Retries != 0 {
			t.Errorf("being suspended costs no retry: %+v", w.status("t"))
		}
	})
}

func TestDeletedTaskIsStoppedAndItsSlotGivenOnOnlyThen(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: time.Minute, stops: 3 * time.Second})
		w.pass(3 * time.Second)
		w.submit("u", work{takes: time.Second})
		w.store.delete(named("t"))
		w.pass(10 * time.Second)
		w.completes(t, "u", 1)
		if runs := w.journal.of("t"); runs[0].end.After(w.journal.of("u")[0].start) {
			t.Error(w.describe()) // the agent would have declined
		}
		if acks := w.journal.acknowledgements(); len(acks) != 1 {
			t.Errorf("the result of a deleted task is acknowledged %d times", len(acks))
		}
	})
}

func TestTaskMadeAnewUnderItsNameIsAnotherTask(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: time.Minute, stops: 8 * time.Second})
		w.pass(3 * time.Second)
		w.store.delete(named("t"))
		made := w.submit("t", work{takes: 2 * time.Second})
		w.pass(20 * time.Second)
		runs := w.journal.of("t")
		if len(runs) != 2 || runs[1].uid != string(made.UID) || w.status("t").Epoch != runs[1].epoch {
			t.Fatal(w.describe())
		}
		if runs[0].outcome != linkv1.Outcome_OUTCOME_CANCELLED.String() || len(w.journal.acknowledgements()) != 2 {
			t.Errorf("the old attempt is to be stopped and acknowledged: %+v\n%s", w.journal.acknowledgements(), w.describe())
		}
	})
}

// Only its agent reports the old attempt, to a leader that knows only the new task.
func TestNewLeaderStopsTheAttemptOfATaskThatWasMadeAnew(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: time.Minute})
		w.pass(3 * time.Second)
		w.current().crash()
		w.store.delete(named("t"))
		w.submit("t", work{takes: 2 * time.Second})
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(20 * time.Second)
		if runs := w.journal.of("t"); len(runs) != 2 || runs[0].outcome != linkv1.Outcome_OUTCOME_CANCELLED.String() || len(w.journal.acknowledgements()) != 2 {
			t.Errorf("%+v\n%s", w.journal.acknowledgements(), w.describe())
		}
		w.pass(time.Minute) // the board counts periodically
		w.audit()
	})
}

func TestTaskThatCanNeverRunIsNeverGivenOut(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 5 * time.Second}, func(spec *v1alpha1.TaskSpec) {
			spec.Payload = &apiextensionsv1.JSON{Raw: []byte(`{"a":"` + string(bytes.Repeat([]byte("x"), mostPayload)) + `"}`)}
		})
		w.pass(10 * time.Second)
		if status := w.status("t"); status.Reason != string(v1alpha1.ReasonPayloadTooLarge) || len(w.journal.of("t")) != 0 {
			t.Error(w.describe())
		}
	})
}

func TestFailedAttemptsAreRetriedLaterEachTime(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: time.Second, outcome: linkv1.Outcome_OUTCOME_FAILED, reason: "Broken"}, func(spec *v1alpha1.TaskSpec) {
			spec.Retry = v1alpha1.TaskRetry{InitialSeconds: 2, Factor: 3, MaxSeconds: 10}
		})
		w.pass(time.Minute)
		runs, status := w.journal.of("t"), w.status("t")
		if len(runs) != 4 || status.Reason != string(v1alpha1.ReasonRetriesExhausted) || status.Retries != 3 {
			t.Fatalf("%+v\n%s", status, w.describe())
		}
		for n, least := range []time.Duration{2 * time.Second, 6 * time.Second, 10 * time.Second} {
			if pause := runs[n+1].start.Sub(runs[n].end); pause < least || pause > least+2*time.Second {
				t.Errorf("retry %d came after %v, want %v", n+1, pause, least)
			}
		}
	})
}

func TestTaskThatLosesTooManyAgentsFails(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 10 * time.Second})
		for range mostReassignments + 1 {
			w.pass(3 * time.Second)
			w.restart("a")
		}
		w.pass(20 * time.Second)
		status := w.status("t")
		if len(w.journal.of("t")) != 6 || status.Reason != string(v1alpha1.ReasonTooManyReassignments) || status.Reassignments != 6 || status.Retries != 0 {
			t.Errorf("%+v\n%s", status, w.describe())
		}
	})
}

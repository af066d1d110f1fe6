package task

import (
	"bytes"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// setDesired sets spec.desired of task t.
func (sim *simulation) setDesired(desire v1alpha1.TaskDesire) {
	sim.store.updateSpec(namespacedName("t"), func(spec *v1alpha1.TaskSpec) { spec.Desired = desire })
}

func TestCancelledTaskEndsWhenItsAttemptHas(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 30 * time.Second, stopDelay: 2 * time.Second})
		sim.advance(3 * time.Second)
		sim.setDesired(v1alpha1.TaskCancel)
		sim.advance(time.Second)
		if sim.status("t").Phase != v1alpha1.TaskRunning {
			t.Errorf("the attempt has not stopped yet: %+v", sim.status("t"))
		}
		sim.advance(3 * time.Second)
		runs := sim.attempts.runsOf("t")
		if sim.status("t").Phase != v1alpha1.TaskCancelled || len(runs) != 1 || runs[0].outcome != linkv1.Outcome_OUTCOME_CANCELLED.String() {
			t.Error(sim.describe())
		}
	})
}

func TestCancelledTaskWhoseAgentIsLostEndsAfterLeaseAndMargin(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 30 * time.Second})
		sim.advance(3 * time.Second)
		sim.disconnect(sim.process(sim.attempts.runsOf("t")[0].agent))
		sim.setDesired(v1alpha1.TaskCancel)
		sim.advance(lease / 2)
		if sim.status("t").Phase != v1alpha1.TaskRunning {
			t.Errorf("it is unknown whether it has stopped: %+v", sim.status("t"))
		}
		sim.advance(leaseTimeout)
		if sim.status("t").Phase != v1alpha1.TaskCancelled || len(sim.attempts.runsOf("t")) != 1 {
			t.Error(sim.describe())
		}
	})
}

func TestSuspendedTaskIsHandedBackAndGoesOnWhenItMay(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 10 * time.Second})
		sim.advance(3 * time.Second)
		sim.setDesired(v1alpha1.TaskSuspend)
		sim.advance(20 * time.Second)
		status := sim.status("t")
		if status.Phase != v1alpha1.TaskPending || status.Reason != string(v1alpha1.ReasonSuspended) || len(status.AssignedAgents) != 0 {
			t.Fatalf("not suspended: %+v", status)
		}
		if orders := sim.attempts.cancelsOf("t"); len(orders) != 1 || !orders[0].GetHandBack() {
			t.Errorf("want one order to hand back: %v", orders)
		}
		sim.setDesired(v1alpha1.TaskRun)
		sim.advance(20 * time.Second)
		sim.assertCompleted(t, "t", 2)
		if sim.status("t").Retries != 0 {
			t.Errorf("being suspended costs no retry: %+v", sim.status("t"))
		}
	})
}

func TestSlotOfADeletedTaskIsFreeOnceItsAttemptHasStopped(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: time.Minute, stopDelay: 3 * time.Second})
		sim.advance(3 * time.Second)
		sim.submit("u", behavior{duration: time.Second})
		sim.store.delete(namespacedName("t"))
		sim.advance(10 * time.Second)
		sim.assertCompleted(t, "u", 1)
		if runs := sim.attempts.runsOf("t"); runs[0].end.After(sim.attempts.runsOf("u")[0].start) {
			t.Error(sim.describe()) // the agent would have declined
		}
		if acks := sim.attempts.acksOfTaskT(); len(acks) != 1 {
			t.Errorf("the result of a deleted task is acknowledged %d times", len(acks))
		}
	})
}

func TestTaskMadeAnewUnderItsNameIsAnotherTask(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: time.Minute, stopDelay: 8 * time.Second})
		sim.advance(3 * time.Second)
		sim.store.delete(namespacedName("t"))
		task := sim.submit("t", behavior{duration: 2 * time.Second})
		sim.advance(20 * time.Second)
		runs := sim.attempts.runsOf("t")
		if len(runs) != 2 || runs[1].uid != string(task.UID) || sim.status("t").Epoch != runs[1].epoch {
			t.Fatal(sim.describe())
		}
		if runs[0].outcome != linkv1.Outcome_OUTCOME_CANCELLED.String() || len(sim.attempts.acksOfTaskT()) != 2 {
			t.Errorf("the old attempt is to be stopped and acknowledged: %+v\n%s", sim.attempts.acksOfTaskT(), sim.describe())
		}
	})
}

// Only its agent reports the old attempt, to a leader that knows only the new task.
func TestNewLeaderStopsTheAttemptOfATaskThatWasMadeAnew(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: time.Minute})
		sim.advance(3 * time.Second)
		sim.currentLeader().crash()
		sim.store.delete(namespacedName("t"))
		sim.submit("t", behavior{duration: 2 * time.Second})
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(20 * time.Second)
		if runs := sim.attempts.runsOf("t"); len(runs) != 2 || runs[0].outcome != linkv1.Outcome_OUTCOME_CANCELLED.String() ||
			len(sim.attempts.acksOfTaskT()) != 2 {
			t.Errorf("%+v\n%s", sim.attempts.acksOfTaskT(), sim.describe())
		}
		sim.advance(time.Minute) // the dispatcher counts periodically
		sim.audit()
	})
}

func TestTaskThatCanNeverRunIsNeverAssigned(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 5 * time.Second}, func(spec *v1alpha1.TaskSpec) {
			spec.Payload = &apiextensionsv1.JSON{Raw: []byte(`{"a":"` + string(bytes.Repeat([]byte("x"), maxPayload)) + `"}`)}
		})
		sim.advance(10 * time.Second)
		if status := sim.status("t"); status.Reason != string(v1alpha1.ReasonPayloadTooLarge) || len(sim.attempts.runsOf("t")) != 0 {
			t.Error(sim.describe())
		}
	})
}

func TestFailedAttemptsAreRetriedLaterEachTime(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: time.Second, outcome: linkv1.Outcome_OUTCOME_FAILED, reason: "Broken"}, func(spec *v1alpha1.TaskSpec) {
			spec.Retry = v1alpha1.TaskRetry{InitialSeconds: 2, Factor: 3, MaxSeconds: 10}
		})
		sim.advance(time.Minute)
		runs, status := sim.attempts.runsOf("t"), sim.status("t")
		if len(runs) != 4 || status.Reason != string(v1alpha1.ReasonRetriesExhausted) || status.Retries != 3 {
			t.Fatalf("%+v\n%s", status, sim.describe())
		}
		for n, least := range []time.Duration{2 * time.Second, 6 * time.Second, 10 * time.Second} {
			if pause := runs[n+1].start.Sub(runs[n].end); pause < least || pause > least+2*time.Second {
				t.Errorf("retry %d came after %v, want %v", n+1, pause, least)
			}
		}
	})
}

func TestTaskThatLosesTooManyAgentsFails(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 10 * time.Second})
		for range maxReassignments + 1 {
			sim.advance(3 * time.Second)
			sim.restartProcess("a")
		}
		sim.advance(20 * time.Second)
		status := sim.status("t")
		if len(sim.attempts.runsOf("t")) != 6 || status.Reason != string(v1alpha1.ReasonTooManyReassignments) || status.Reassignments != 6 ||
			status.Retries != 0 {
			t.Errorf("%+v\n%s", status, sim.describe())
		}
	})
}

package task

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// lapse is how long an agent can still be working after its last heartbeat, from the board's point of view.
const lapse = lease + 1500*time.Millisecond

// promised is how long after the last heartbeat of a disconnected or frozen agent its work has started on another one.
const promised = lease + 2*time.Second

// soon is the maximum duration of a reassignment once it is allowed, unless more is promised.
const soon = time.Second

// lastHeard returns when the leader had the last heartbeat of an agent.
func (w *cluster) lastHeard(name string) time.Time {
	heard, _ := w.current().wire.LastHeard(link.Agent{Namespace: "default", Name: name})
	return heard
}

// completes checks that the last of so many attempts completes a task.
func (w *cluster) completes(t *testing.T, task string, attempts int) {
	t.Helper()
	runs, status := w.journal.of(task), w.status(task)
	if status.Phase != v1alpha1.TaskCompleted || len(runs) != attempts || runs[attempts-1].epoch != status.Epoch {
		t.Errorf("want %s completed by attempt %d:\n%+v\n%s", task, attempts, status, w.describe())
	}
}

func TestStaleResultIsRefusedAcknowledgedAndCounted(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 8 * time.Second})
		w.pass(2 * time.Second)
		w.agent("a").cable.cut() // it finishes, which is not received
		w.pod("b", 1)
		w.pass(lapse + soon)
		w.agent("a").cable.mend()
		w.pass(3 * time.Second)
		if acks := w.journal.acknowledgements(); len(acks) != 1 || acks[0].epoch != w.journal.of("t")[0].epoch {
			t.Errorf("the stale result is not acknowledged: %+v", acks)
		}
		if got := w.current().count("swarm_task_stale_total", "result"); got < 1 {
			t.Error("the stale result is not counted")
		}
		if w.status("t").Phase != v1alpha1.TaskRunning {
			t.Errorf("the stale result was taken: %+v", w.status("t"))
		}
		w.pass(10 * time.Second)
		w.completes(t, "t", 2)
	})
}

func TestStaleSuccessIsRefusedBetweenTwoLaterAttempts(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{}, func(spec *v1alpha1.TaskSpec) { spec.Retry = v1alpha1.TaskRetry{InitialSeconds: 20, MaxSeconds: 20} })
		w.doesEach("t", func(attempt int32) work {
			if attempt == 2 {
				return work{takes: time.Second, outcome: linkv1.Outcome_OUTCOME_RETRY, reason: "Busy"}
			}
			return work{takes: 8 * time.Second}
		})
		w.pass(2 * time.Second)
		w.agent("a").cable.cut()
		w.pod("b", 1)
		w.until(func() bool { return w.status("t").Retries == 1 })
		w.agent("a").cable.mend()
		w.pass(10 * time.Second)
		if acks := w.journal.acknowledgements(); len(acks) != 2 || w.status("t").Phase != v1alpha1.TaskPending {
			t.Errorf("want it acknowledged and not taken: %+v, %+v", acks, w.status("t"))
		}
		w.pass(time.Minute)
		w.completes(t, "t", 3)
	})
}

func TestReassignmentWaitsForLeaseAndMarginEvenIfTheStreamIsGone(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 40 * time.Second, stubborn: true, dies: time.Second})
		w.pass(5 * time.Second)
		heard := w.lastHeard("a")
		w.cutSeen(w.agent("a"))
		w.pod("b", 1)
		w.pass(30 * time.Second)
		runs := w.journal.of("t")
		if len(runs) != 2 {
			t.Fatal(w.describe())
		}
		if waited := runs[1].start.Sub(heard); waited < lapse || waited > promised {
			t.Errorf("reassigned %v after the last heartbeat, want %v", waited, lapse)
		}
	})
}

func TestHeartbeatsAloneCount(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 40 * time.Second})
		w.pass(5 * time.Second)
		heard := w.lastHeard("a")
		w.agent("a").cable.cut() // the operator's stream stays up, and silent
		w.pod("b", 1)
		w.pass(lapse + soon)
		runs := w.journal.of("t")
		if len(runs) != 2 {
			t.Fatal(w.describe())
		}
		if waited := runs[1].start.Sub(heard); waited < lapse || waited > promised {
			t.Errorf("it began elsewhere %v after the last heartbeat, want %v to %v", waited, lapse, promised)
		}
	})
}

func TestFirstAssignmentGoesBeforeItsWriteAndReassignmentAfter(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 3 * time.Second})
		w.pass(500 * time.Millisecond)
		if len(w.journal.of("t")) != 1 || w.store.written("t") != 0 {
			t.Fatalf("%d writes before the first attempt, want none:\n%s", w.store.written("t"), w.describe())
		}
		w.restart("a") // the attempt is lost
		w.until(func() bool { return w.status("t").Phase == v1alpha1.TaskPending })
		w.faults.set(1000, 0)
		w.pass(30 * time.Second)
		if runs := w.journal.of("t"); len(runs) != 1 {
			t.Fatalf("the second attempt was not written and began:\n%s", w.describe())
		}
		w.faults.set(0, 0)
		w.pass(2 * time.Minute)
		w.completes(t, "t", 2)
	})
}

func TestAssignmentWrittenWhileItsAgentLinksAnewIsNotGivenUp(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 40 * time.Second})
		w.pass(2 * time.Second)
		relinks := false
		w.faults.onStoring(func(task *v1alpha1.Task) {
			if task.Status.Attempt == 2 && !relinks {
				relinks = true
				w.relink("a")
				time.Sleep(3 * time.Second)
			}
		})
		w.restart("a")
		w.pass(10 * time.Second)
		w.pod("b", 1)
		w.pass(time.Minute)
		w.completes(t, "t", 2)
	})
}

func TestAnotherPodOfTheSameNameDoesNotFreeTheAttempt(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 40 * time.Second, stubborn: true, dies: time.Second})
		w.pass(5 * time.Second)
		heard := w.lastHeard("a")
		w.replace("a")
		w.pass(30 * time.Second)
		runs := w.journal.of("t")
		if len(runs) != 2 || runs[0].pod == runs[1].pod {
			t.Fatal(w.describe())
		}
		if waited := runs[1].start.Sub(heard); waited < lapse || waited > promised {
			t.Errorf("the other pod got it %v after the last heartbeat, want %v", waited, lapse)
		}
	})
}

func TestSamePodWithoutTheAttemptFreesItAtOnce(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 5 * time.Second})
		w.pass(3 * time.Second)
		crashed := time.Now()
		w.restart("a")
		w.pass(3 * time.Second)
		runs := w.journal.of("t")
		if len(runs) != 2 || runs[1].start.Sub(crashed) > soon {
			t.Fatalf("crashed at %s:\n%s", since(crashed), w.describe())
		}
		if status := w.status("t"); status.Reassignments != 1 || status.Retries != 0 {
			t.Errorf("a lost agent costs a reassignment and no retry: %+v", status)
		}
		w.pass(10 * time.Second)
		w.completes(t, "t", 2)
	})
}

func TestCreditIsNeverExceeded(t *testing.T) {
	inCluster(t, nil, func(_ *testing.T, w *cluster) {
		w.pod("a", 2).cable.slow(300 * time.Millisecond)
		w.pod("b", 3)
		w.pass(2 * time.Second)
		for n := range 20 {
			w.submitOne(step{whom: n % 3, size: n})
			w.submit("long"+string(rune('a'+n)), work{takes: time.Duration(n) * 100 * time.Millisecond})
			if n%5 == 0 {
				w.relink("a")
			}
		}
		w.pass(5 * time.Minute)
		w.audit() // agents report what exceeds their credit or their slots
	})
}

func TestLeavingAgentGetsNothingNewAndIsAskedBackInTheEnd(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 50 * time.Second})
		w.pass(2 * time.Second)
		told := time.Now()
		w.current().govern(dispatch.SwarmRules{LeavingAgents: []string{"a", "b"}})
		w.pod("b", 1) // comes after the rule
		w.submit("u", work{takes: time.Second})
		w.pass(29 * time.Second)
		if len(w.journal.cancelsOf("t")) != 0 || len(w.journal.of("u")) != 0 {
			t.Fatalf("asked back too early, or given to an agent that is to go:\n%s", w.describe())
		}
		w.pass(3 * time.Second)
		orders := w.journal.cancelsOf("t")
		if len(orders) != 1 || !orders[0].GetHandBack() {
			t.Fatalf("want one order to hand back, %v after the rule: %v", time.Since(told), orders)
		}
		w.pod("c", 2)
		w.pass(2 * time.Minute)
		w.completes(t, "t", 2)
		if w.status("t").Retries != 0 || w.journal.of("t")[1].agent != "c" {
			t.Errorf("handing back costs no retry: %+v", w.status("t"))
		}
	})
}

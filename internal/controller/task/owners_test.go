package task

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// leaseTimeout is how long an agent can still be working after its last heartbeat, from the dispatcher's point of view.
const leaseTimeout = lease + 1500*time.Millisecond

// maxReassignmentDelay is how long after the last heartbeat of a disconnected or frozen agent its work has started on another one.
const maxReassignmentDelay = lease + 2*time.Second

// reassignmentSlack is the maximum duration of a reassignment once it is allowed, unless more is promised.
const reassignmentSlack = time.Second

// lastHeard returns when the leader had the last heartbeat of an agent.
func (sim *simulation) lastHeard(name string) time.Time {
	heard, _ := sim.currentLeader().link.LastHeard(link.Agent{Namespace: "default", Name: name})
	return heard
}

// assertCompleted checks that the last of so many attempts completes a task.
func (sim *simulation) assertCompleted(t *testing.T, task string, attempts int) {
	t.Helper()
	runs, status := sim.attempts.runsOf(task), sim.status(task)
	if status.Phase != v1alpha1.TaskCompleted || len(runs) != attempts || runs[attempts-1].epoch != status.Epoch {
		t.Errorf("want %s completed by attempt %d:\n%+v\n%s", task, attempts, status, sim.describe())
	}
}

func TestStaleResultIsRefusedAcknowledgedAndCounted(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 8 * time.Second})
		sim.advance(2 * time.Second)
		sim.process("a").network.partition() // it finishes, which is not received
		sim.startPod("b", 1)
		sim.advance(leaseTimeout + reassignmentSlack)
		sim.process("a").network.heal()
		sim.advance(3 * time.Second)
		if acks := sim.attempts.acksOfTaskT(); len(acks) != 1 || acks[0].epoch != sim.attempts.runsOf("t")[0].epoch {
			t.Errorf("the stale result is not acknowledged: %+v", acks)
		}
		if got := sim.currentLeader().metricValue("swarm_task_stale_total", "result"); got < 1 {
			t.Error("the stale result is not counted")
		}
		if sim.status("t").Phase != v1alpha1.TaskRunning {
			t.Errorf("the stale result was taken: %+v", sim.status("t"))
		}
		sim.advance(10 * time.Second)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestStaleSuccessIsRefusedBetweenTwoLaterAttempts(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{}, func(spec *v1alpha1.TaskSpec) { spec.Retry = v1alpha1.TaskRetry{InitialSeconds: 20, MaxSeconds: 20} })
		sim.setBehaviorPerAttempt("t", func(attempt int32) behavior {
			if attempt == 2 {
				return behavior{duration: time.Second, outcome: linkv1.Outcome_OUTCOME_RETRY, reason: "Busy"}
			}
			return behavior{duration: 8 * time.Second}
		})
		sim.advance(2 * time.Second)
		sim.process("a").network.partition()
		sim.startPod("b", 1)
		sim.waitUntil(func() bool { return sim.status("t").Retries == 1 })
		sim.process("a").network.heal()
		sim.advance(10 * time.Second)
		if acks := sim.attempts.acksOfTaskT(); len(acks) != 2 || sim.status("t").Phase != v1alpha1.TaskPending {
			t.Errorf("want it acknowledged and not taken: %+v, %+v", acks, sim.status("t"))
		}
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 3)
	})
}

// expectReassigned requires that task t was assigned a second time, when lease and margin had passed since the agent was heard last.
func (sim *simulation) expectReassigned(t *testing.T, heard time.Time) []attemptRecord {
	t.Helper()
	runs := sim.attempts.runsOf("t")
	if len(runs) != 2 {
		t.Fatal(sim.describe())
	}
	if waited := runs[1].start.Sub(heard); waited < leaseTimeout || waited > maxReassignmentDelay {
		t.Errorf("reassigned %v after the last heartbeat, want %v to %v", waited, leaseTimeout, maxReassignmentDelay)
	}
	return runs
}

func TestReassignmentWaitsForLeaseAndMarginEvenIfTheStreamIsGone(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 40 * time.Second, ignoresStop: true, killDelay: time.Second})
		sim.advance(5 * time.Second)
		heard := sim.lastHeard("a")
		sim.disconnect(sim.process("a"))
		sim.startPod("b", 1)
		sim.advance(30 * time.Second)
		sim.expectReassigned(t, heard)
	})
}

func TestHeartbeatsAloneCount(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 40 * time.Second})
		sim.advance(5 * time.Second)
		heard := sim.lastHeard("a")
		sim.process("a").network.partition() // the operator's stream stays up, and silent
		sim.startPod("b", 1)
		sim.advance(leaseTimeout + reassignmentSlack)
		sim.expectReassigned(t, heard)
	})
}

func TestFirstAssignmentIsSentBeforeItsWriteAndReassignmentAfter(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 3 * time.Second})
		sim.advance(500 * time.Millisecond)
		if len(sim.attempts.runsOf("t")) != 1 || sim.store.writeCount("t") != 0 {
			t.Fatalf("%d writes before the first attempt, want none:\n%s", sim.store.writeCount("t"), sim.describe())
		}
		sim.restartProcess("a") // the attempt is lost
		sim.waitUntil(func() bool { return sim.status("t").Phase == v1alpha1.TaskPending })
		sim.faults.setFailures(1000, 0)
		sim.advance(30 * time.Second)
		if runs := sim.attempts.runsOf("t"); len(runs) != 1 {
			t.Fatalf("the second attempt was not written and began:\n%s", sim.describe())
		}
		sim.faults.setFailures(0, 0)
		sim.advance(2 * time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestAssignmentWrittenWhileItsAgentReconnectsIsNotLost(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 40 * time.Second})
		sim.advance(2 * time.Second)
		relinks := false
		sim.faults.setBeforeStore(func(task *v1alpha1.Task) {
			if task.Status.Attempt == 2 && !relinks {
				relinks = true
				sim.reconnect("a")
				time.Sleep(3 * time.Second)
			}
		})
		sim.restartProcess("a")
		sim.advance(10 * time.Second)
		sim.startPod("b", 1)
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestAnotherPodOfTheSameNameDoesNotFreeTheAttempt(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 40 * time.Second, ignoresStop: true, killDelay: time.Second})
		sim.advance(5 * time.Second)
		heard := sim.lastHeard("a")
		sim.replacePod("a")
		sim.advance(30 * time.Second)
		if runs := sim.expectReassigned(t, heard); runs[0].pod == runs[1].pod {
			t.Error(sim.describe())
		}
	})
}

func TestSamePodWithoutTheAttemptFreesItAtOnce(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 5 * time.Second})
		sim.advance(3 * time.Second)
		crashed := time.Now()
		sim.restartProcess("a")
		sim.advance(3 * time.Second)
		runs := sim.attempts.runsOf("t")
		if len(runs) != 2 || runs[1].start.Sub(crashed) > reassignmentSlack {
			t.Fatalf("crashed at %s:\n%s", since(crashed), sim.describe())
		}
		if status := sim.status("t"); status.Reassignments != 1 || status.Retries != 0 {
			t.Errorf("a lost agent costs a reassignment and no retry: %+v", status)
		}
		sim.advance(10 * time.Second)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestCreditIsNeverExceeded(t *testing.T) {
	simulate(t, nil, func(_ *testing.T, sim *simulation) {
		sim.startPod("a", 2).network.setLatency(300 * time.Millisecond)
		sim.startPod("b", 3)
		sim.advance(2 * time.Second)
		for n := range 20 {
			sim.submitStep(step{target: n % 3, size: n})
			sim.submit("long"+string(rune('a'+n)), behavior{duration: time.Duration(n) * 100 * time.Millisecond})
			if n%5 == 0 {
				sim.reconnect("a")
			}
		}
		sim.advance(5 * time.Minute)
		sim.audit() // agents report what exceeds their credit or their slots
	})
}

func TestLeavingAgentGetsNothingNewAndHandsBackInTheEnd(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 50 * time.Second})
		sim.advance(2 * time.Second)
		leavingSince := time.Now()
		sim.currentLeader().setRules(dispatch.SwarmRules{LeavingAgents: []string{"a", "b"}})
		sim.startPod("b", 1) // comes after the rule
		sim.submit("u", behavior{duration: time.Second})
		sim.advance(29 * time.Second)
		if len(sim.attempts.cancelsOf("t")) != 0 || len(sim.attempts.runsOf("u")) != 0 {
			t.Fatalf("asked back too early, or given to an agent that is to go:\n%s", sim.describe())
		}
		sim.advance(3 * time.Second)
		orders := sim.attempts.cancelsOf("t")
		if len(orders) != 1 || !orders[0].GetHandBack() {
			t.Fatalf("want one order to hand back, %v after the rule: %v", time.Since(leavingSince), orders)
		}
		sim.startPod("c", 2)
		sim.advance(2 * time.Minute)
		sim.assertCompleted(t, "t", 2)
		if sim.status("t").Retries != 0 || sim.attempts.runsOf("t")[1].agent != "c" {
			t.Errorf("handing back costs no retry: %+v", sim.status("t"))
		}
	})
}

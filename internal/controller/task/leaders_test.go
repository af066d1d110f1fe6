package task

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// changeLeader ends the leader and elects another.
func (sim *simulation) changeLeader() {
	sim.currentLeader().crash()
	sim.elect().setRules(dispatch.SwarmRules{})
}

func TestResultIsAcknowledgedOnlyAfterItIsStored(t *testing.T) {
	for name, break_ := range map[string]func(sim *simulation){
		"all goes well":            func(*simulation) {},
		"writes fail first":        func(sim *simulation) { sim.faults.setFailures(5, 0) },
		"the answer is lost":       func(sim *simulation) { sim.faults.setFailures(0, 1) },
		"answers are lost":         func(sim *simulation) { sim.faults.setFailures(1, 3) },
		"the write takes longer":   func(sim *simulation) { sim.setWriteDelay(8 * time.Second) },
		"the cache lags behind it": func(sim *simulation) { sim.cacheLag.Store(int64(7 * time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
				sim.submit("t", behavior{duration: 3 * time.Second})
				sim.advance(2 * time.Second)
				break_(sim)
				sim.advance(2 * time.Minute)
				sim.assertCompleted(t, "t", 1)
				if acks := sim.attempts.acksOfTaskT(); len(acks) != 1 || acks[0].phase != string(v1alpha1.TaskCompleted) {
					t.Errorf("acknowledged when this was stored: %+v", acks)
				}
			})
		})
	}
}

// The success of an attempt that was just given up arrives while the loss is being written: it is not what is stored.
func TestLateSuccessIsNotAcknowledgedForTheLossThatWasStored(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 5 * time.Second})
		sim.advance(2 * time.Second)
		sim.process("a").network.partition()
		sim.startPod("b", 1)
		sim.faults.setBeforeStore(func(task *v1alpha1.Task) {
			if task.Status.Phase == v1alpha1.TaskPending {
				sim.process("a").network.heal()
				time.Sleep(5 * time.Second) // until it has reconnected
			}
		})
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 1)
		if acks := sim.attempts.acksOfTaskT(); len(acks) != 1 || acks[0].phase != string(v1alpha1.TaskCompleted) {
			t.Errorf("acknowledged when this was stored: %+v", acks)
		}
	})
}

func TestResultIsNotLostWithTheLeader(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.faults.setFailures(1000, 0)
		sim.submit("t", behavior{duration: 500 * time.Millisecond})
		sim.advance(2 * time.Second)
		sim.faults.setFailures(0, 0)
		if sim.store.writeCount("t") != 0 {
			t.Fatal("the result was to be unwritten")
		}
		sim.changeLeader()
		sim.advance(5 * time.Second)
		sim.assertCompleted(t, "t", 1)
		if acks := sim.attempts.acksOfTaskT(); len(acks) != 1 {
			t.Errorf("acknowledged %d times", len(acks))
		}
	})
}

func TestDeposedLeaderNeitherSendsNorWrites(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 500 * time.Millisecond})
		sim.setWriteDelay(2 * time.Second)
		sim.advance(time.Second) // the result is known, and its write in progress
		old := sim.currentLeader()
		old.loseLease()
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(30 * time.Second)
		sim.assertCompleted(t, "t", 1)
		if got := old.metricValue("swarm_task_attempts_total", ""); got != 1 {
			t.Errorf("the old leader took %v results", got)
		}
	})
}

func TestNewLeaderAssignsNothingUntilEveryPodHasReported(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 14 * time.Second, ignoresStop: true, killDelay: time.Second})
		sim.advance(500 * time.Millisecond) // it runs, which is not stored
		running := sim.process(sim.attempts.runsOf("t")[0].agent)
		running.network.partition()
		sim.submit("u", behavior{duration: time.Second})
		sim.changeLeader()
		elected := time.Now()
		sim.advance(leaseTimeout - time.Second)
		if len(sim.attempts.runsOf("u")) != 0 || len(sim.attempts.runsOf("t")) != 1 {
			t.Fatalf("a pod has not spoken, and work was given out:\n%s", sim.describe())
		}
		sim.advance(2 * time.Second)
		if begun := append(sim.attempts.runsOf("u"), sim.attempts.runsOf("t")[1:]...); len(begun) != 1 ||
			begun[0].start.Sub(elected) < leaseTimeout {
			t.Fatalf("want the one free slot taken %v after %s:\n%s", leaseTimeout, since(elected), sim.describe())
		}
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestNewLeaderAssignsWorkOnceEveryPodHasReported(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.process("b").network.partition()
		sim.changeLeader()
		sim.submit("t", behavior{duration: time.Second})
		sim.advance(5 * time.Second)
		if len(sim.attempts.runsOf("t")) != 0 {
			t.Fatal(sim.describe())
		}
		sim.process("b").network.heal()
		sim.advance(5 * time.Second)
		sim.assertCompleted(t, "t", 1)
	})
}

// The new leader waits for a pod. Another pod of the same name cannot report what that one runs.
func TestNewLeaderWaitsForThePodThatItFoundNotForItsName(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 14 * time.Second, ignoresStop: true, killDelay: time.Second})
		sim.advance(500 * time.Millisecond)
		runs := sim.attempts.runsOf("t")[0].agent
		sim.process(runs).network.partition()
		sim.changeLeader()
		sim.replacePod(runs)
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestNewLeaderResumesAnUnwrittenFirstAssignment(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 5 * time.Second})
		sim.advance(500 * time.Millisecond)
		sim.changeLeader()
		sim.advance(2 * time.Second)
		if status := sim.status("t"); status.Phase != v1alpha1.TaskRunning || status.Epoch != sim.attempts.runsOf("t")[0].epoch {
			t.Errorf("not taken up: %+v", status)
		}
		sim.advance(5 * time.Second)
		sim.assertCompleted(t, "t", 1)
	})
}

// T5: with the default lease, a new leader that takes over 20 s after the death of the former one stops nothing. With a short lease it
// does: the agents have stopped their attempts.
func TestDeathOfTheLeaderStopsOnlyWorkWithAShortLease(t *testing.T) {
	for lease, again := range map[time.Duration]int{45 * time.Second: 0, 10 * time.Second: 3} {
		t.Run(lease.String(), func(t *testing.T) {
			simulateWithLease(t, lease, []string{"a", "b", "c"}, func(t *testing.T, sim *simulation) {
				tasks := []string{"t", "u", "v"}
				for _, task := range tasks {
					sim.submit(task, behavior{duration: time.Hour})
				}
				sim.advance(10*time.Minute + 14*time.Second - 100*time.Millisecond) // just before the next heartbeat
				sim.currentLeader().crash()
				sim.advance(20 * time.Second)
				sim.elect().setRules(dispatch.SwarmRules{})
				sim.advance(2 * time.Hour)
				begun := 0
				for _, task := range tasks {
					begun += len(sim.attempts.runsOf(task))
				}
				if begun != len(tasks)+again {
					t.Errorf("%d attempts began anew, want %d:\n%s", begun-len(tasks), again, sim.describe())
				}
				for _, task := range tasks {
					sim.assertCompleted(t, task, len(sim.attempts.runsOf(task)))
				}
			})
		})
	}
}

// An attempt that a new leader first hears of from an agent stays with it, even if the agent then falls silent.
func TestAttemptReportedBeforeItsTaskIsSeenStaysWithItsAgent(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 14 * time.Second, ignoresStop: true})
		sim.advance(500 * time.Millisecond)
		sim.currentLeader().crash()
		next := sim.electWithStaleCache(1)
		next.setRules(dispatch.SwarmRules{})
		sim.advance(2 * time.Second)
		sim.disconnect(sim.process(sim.attempts.runsOf("t")[0].agent))
		sim.advance(time.Second)
		next.cache.resume()
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestTermIsRaisedAboveStoredEpochs(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.changeLeader()
		sim.submit("t", behavior{duration: 3 * time.Second})
		sim.advance(2 * time.Second)
		sim.restartProcess("a")
		sim.currentLeader().crash()
		sim.term.Store(0) // the Lease was deleted
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

func TestTermIsRaisedAboveWhatAgentsReport(t *testing.T) {
	for name, lost := range map[string]int64{"an earlier term": 1, "the same term": 2} {
		t.Run(name, func(t *testing.T) {
			simulate(t, []string{"a", "b", "c"}, func(t *testing.T, sim *simulation) {
				sim.changeLeader()
				sim.advance(time.Second)
				for _, task := range []string{"t", "u", "v"} {
					sim.submit(task, behavior{duration: 10 * time.Second})
					sim.advance(10 * time.Millisecond)
				}
				sim.advance(200 * time.Millisecond) // they run, which is not stored
				sim.currentLeader().crash()
				sim.term.Store(lost - 1)
				sim.elect().setRules(dispatch.SwarmRules{})
				sim.advance(3 * time.Second)
				sim.restartProcess(sim.attempts.runsOf("v")[0].agent)
				sim.advance(time.Minute)
				sim.assertCompleted(t, "t", 1)
				sim.assertCompleted(t, "u", 1)
				sim.assertCompleted(t, "v", 2)
			})
		})
	}
}

// The first attempt is not stored, and its task is to end before the agent has reported the attempt to the new leader. A final phase
// would discard the success.
func TestFinalPhaseWaitsForAnUnwrittenFirstAssignment(t *testing.T) {
	queueLimit := func(spec *v1alpha1.TaskSpec) { spec.Timeouts = &v1alpha1.TaskTimeouts{QueueSeconds: 1} }
	totalLimit := func(spec *v1alpha1.TaskSpec) { spec.Timeouts = &v1alpha1.TaskTimeouts{TotalSeconds: 2} }
	for name, c := range map[string]struct {
		limit  func(*v1alpha1.TaskSpec)
		cancel bool
		ends   v1alpha1.TaskPhase
	}{
		"queueSeconds have passed": {limit: queueLimit, ends: v1alpha1.TaskCompleted},
		"totalSeconds have passed": {limit: totalLimit, ends: v1alpha1.TaskFailed},
		"the task is cancelled":    {limit: func(*v1alpha1.TaskSpec) {}, cancel: true, ends: v1alpha1.TaskCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
				sim.submit("t", behavior{duration: 5 * time.Second}, c.limit)
				sim.advance(500 * time.Millisecond)
				running := sim.process(sim.attempts.runsOf("t")[0].agent)
				running.network.partition()
				sim.currentLeader().crash()
				sim.advance(2 * time.Second)
				if c.cancel {
					sim.setDesired(v1alpha1.TaskCancel)
				}
				sim.elect().setRules(dispatch.SwarmRules{})
				sim.advance(time.Second)
				if phase := sim.status("t").Phase; phase.Final() {
					t.Fatalf("%s while an agent that runs it has not been heard:\n%s", phase, sim.describe())
				}
				running.network.heal()
				sim.advance(10 * time.Second)
				if phase := sim.status("t").Phase; phase != c.ends || len(sim.attempts.runsOf("t")) != 1 {
					t.Errorf("%s, want %s:\n%s", phase, c.ends, sim.describe())
				}
			})
		})
	}
}

// The former leader's assignment is in transit when the task is cancelled: it must not start after the final phase.
func TestCancelWaitsForAnAssignmentThatIsOnItsWay(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.process("a").network.setLatency(3 * time.Second)
		sim.advance(time.Minute)
		sim.submit("t", behavior{duration: 30 * time.Second})
		sim.advance(500 * time.Millisecond)
		sim.currentLeader().crash()
		sim.setDesired(v1alpha1.TaskCancel)
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(2 * time.Minute)
		if status := sim.status("t"); status.Phase != v1alpha1.TaskCancelled {
			t.Errorf("%+v\n%s", status, sim.describe())
		}
	})
}

// A task that no agent can have ends when its time is over, even if a pod never reports.
func TestFinalPhaseWaitsNoLongerThanForTheLease(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.process("a").network.partition()
		sim.currentLeader().crash()
		sim.submit("t", behavior{})
		sim.setDesired(v1alpha1.TaskCancel)
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(leaseTimeout - time.Second)
		if phase := sim.status("t").Phase; phase.Final() {
			t.Errorf("%s before a lease and a margin have passed", phase)
		}
		sim.advance(time.Second + reassignmentSlack)
		if phase := sim.status("t").Phase; phase != v1alpha1.TaskCancelled {
			t.Errorf("%q after a lease and a margin", phase)
		}
	})
}

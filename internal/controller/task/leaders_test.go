package task

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// next ends the leader and elects another.
func (w *cluster) next() {
	w.current().crash()
	w.elect().govern(dispatch.SwarmRules{})
}

func TestResultIsAcknowledgedOnlyAfterItIsStored(t *testing.T) {
	for name, break_ := range map[string]func(w *cluster){
		"all goes well":            func(*cluster) {},
		"writes fail first":        func(w *cluster) { w.faults.set(5, 0) },
		"the answer is lost":       func(w *cluster) { w.faults.set(0, 1) },
		"answers are lost":         func(w *cluster) { w.faults.set(1, 3) },
		"the write takes longer":   func(w *cluster) { w.slowWrites(8 * time.Second) },
		"the cache lags behind it": func(w *cluster) { w.lag.Store(int64(7 * time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
				w.submit("t", work{takes: 3 * time.Second})
				w.pass(2 * time.Second)
				break_(w)
				w.pass(2 * time.Minute)
				w.completes(t, "t", 1)
				if acks := w.journal.acknowledgements(); len(acks) != 1 || acks[0].phase != string(v1alpha1.TaskCompleted) {
					t.Errorf("acknowledged when this was stored: %+v", acks)
				}
			})
		})
	}
}

// The success of an attempt that was just given up arrives while the loss is being written: it is not what is stored.
func TestLateSuccessIsNotAcknowledgedForTheLossThatWasStored(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 5 * time.Second})
		w.pass(2 * time.Second)
		w.agent("a").cable.cut()
		w.pod("b", 1)
		w.faults.onStoring(func(task *v1alpha1.Task) {
			if task.Status.Phase == v1alpha1.TaskPending {
				w.agent("a").cable.mend()
				time.Sleep(5 * time.Second) // until it has reconnected
			}
		})
		w.pass(time.Minute)
		w.completes(t, "t", 1)
		if acks := w.journal.acknowledgements(); len(acks) != 1 || acks[0].phase != string(v1alpha1.TaskCompleted) {
			t.Errorf("acknowledged when this was stored: %+v", acks)
		}
	})
}

func TestResultIsNotLostWithTheLeader(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.faults.set(1000, 0)
		w.submit("t", work{takes: 500 * time.Millisecond})
		w.pass(2 * time.Second)
		w.faults.set(0, 0)
		if w.store.written("t") != 0 {
			t.Fatal("the result was to be unwritten")
		}
		w.next()
		w.pass(5 * time.Second)
		w.completes(t, "t", 1)
		if acks := w.journal.acknowledgements(); len(acks) != 1 {
			t.Errorf("acknowledged %d times", len(acks))
		}
	})
}

func TestDeposedLeaderNeitherSendsNorWrites(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 500 * time.Millisecond})
		w.slowWrites(2 * time.Second)
		w.pass(time.Second) // the result is known, and its write in progress
		old := w.current()
		old.depose()
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(30 * time.Second)
		w.completes(t, "t", 1)
		if got := old.count("swarm_task_attempts_total", ""); got != 1 {
			t.Errorf("the old leader took %v results", got)
		}
	})
}

func TestNewLeaderGivesOutNothingUntilEveryPodHasSpoken(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 14 * time.Second, stubborn: true, dies: time.Second})
		w.pass(500 * time.Millisecond) // it runs, which is not stored
		runs := w.agent(w.journal.of("t")[0].agent)
		runs.cable.cut()
		w.submit("u", work{takes: time.Second})
		w.next()
		elected := time.Now()
		w.pass(lapse - time.Second)
		if len(w.journal.of("u")) != 0 || len(w.journal.of("t")) != 1 {
			t.Fatalf("a pod has not spoken, and work was given out:\n%s", w.describe())
		}
		w.pass(2 * time.Second)
		if begun := append(w.journal.of("u"), w.journal.of("t")[1:]...); len(begun) != 1 || begun[0].start.Sub(elected) < lapse {
			t.Fatalf("want the one free slot taken %v after %s:\n%s", lapse, since(elected), w.describe())
		}
		w.pass(time.Minute)
		w.completes(t, "t", 2)
	})
}

func TestNewLeaderGivesOutWorkOnceEveryPodHasSpoken(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.agent("b").cable.cut()
		w.next()
		w.submit("t", work{takes: time.Second})
		w.pass(5 * time.Second)
		if len(w.journal.of("t")) != 0 {
			t.Fatal(w.describe())
		}
		w.agent("b").cable.mend()
		w.pass(5 * time.Second)
		w.completes(t, "t", 1)
	})
}

// The new leader waits for a pod. Another pod of the same name cannot report what that one runs.
func TestNewLeaderWaitsForThePodThatItFoundNotForItsName(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 14 * time.Second, stubborn: true, dies: time.Second})
		w.pass(500 * time.Millisecond)
		runs := w.journal.of("t")[0].agent
		w.agent(runs).cable.cut()
		w.next()
		w.replace(runs)
		w.pass(time.Minute)
		w.completes(t, "t", 2)
	})
}

func TestNewLeaderAdoptsAnUnwrittenFirstAssignment(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 5 * time.Second})
		w.pass(500 * time.Millisecond)
		w.next()
		w.pass(2 * time.Second)
		if status := w.status("t"); status.Phase != v1alpha1.TaskRunning || status.Epoch != w.journal.of("t")[0].epoch {
			t.Errorf("not taken up: %+v", status)
		}
		w.pass(5 * time.Second)
		w.completes(t, "t", 1)
	})
}

// T5: with the default lease, a new leader that takes over 20 s after the death of the former one stops nothing. With a short lease it
// does: the agents have stopped their attempts.
func TestDeathOfTheLeaderStopsWhatHasAShortLeaseOnly(t *testing.T) {
	for lease, again := range map[time.Duration]int{45 * time.Second: 0, 10 * time.Second: 3} {
		t.Run(lease.String(), func(t *testing.T) {
			inClusterWithLease(t, lease, []string{"a", "b", "c"}, func(t *testing.T, w *cluster) {
				tasks := []string{"t", "u", "v"}
				for _, task := range tasks {
					w.submit(task, work{takes: time.Hour})
				}
				w.pass(10*time.Minute + 14*time.Second - 100*time.Millisecond) // just before the next heartbeat
				w.current().crash()
				w.pass(20 * time.Second)
				w.elect().govern(dispatch.SwarmRules{})
				w.pass(2 * time.Hour)
				begun := 0
				for _, task := range tasks {
					begun += len(w.journal.of(task))
				}
				if begun != len(tasks)+again {
					t.Errorf("%d attempts began anew, want %d:\n%s", begun-len(tasks), again, w.describe())
				}
				for _, task := range tasks {
					w.completes(t, task, len(w.journal.of(task)))
				}
			})
		})
	}
}

// An attempt that a new leader first hears of from an agent stays with it, even if the agent then falls silent.
func TestAttemptToldBeforeItsTaskIsSeenStaysWithItsAgent(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 14 * time.Second, stubborn: true})
		w.pass(500 * time.Millisecond)
		w.current().crash()
		next := w.electBehind(1)
		next.govern(dispatch.SwarmRules{})
		w.pass(2 * time.Second)
		w.cutSeen(w.agent(w.journal.of("t")[0].agent))
		w.pass(time.Second)
		next.cache.release()
		w.pass(time.Minute)
		w.completes(t, "t", 2)
	})
}

func TestTermIsRaisedAboveStoredEpochs(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.next()
		w.submit("t", work{takes: 3 * time.Second})
		w.pass(2 * time.Second)
		w.restart("a")
		w.current().crash()
		w.term.Store(0) // the Lease was deleted
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(time.Minute)
		w.completes(t, "t", 2)
	})
}

func TestTermIsRaisedAboveWhatAgentsReport(t *testing.T) {
	for name, lost := range map[string]int64{"an earlier term": 1, "the same term": 2} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, []string{"a", "b", "c"}, func(t *testing.T, w *cluster) {
				w.next()
				w.pass(time.Second)
				for _, task := range []string{"t", "u", "v"} {
					w.submit(task, work{takes: 10 * time.Second})
					w.pass(10 * time.Millisecond)
				}
				w.pass(200 * time.Millisecond) // they run, which is not stored
				w.current().crash()
				w.term.Store(lost - 1)
				w.elect().govern(dispatch.SwarmRules{})
				w.pass(3 * time.Second)
				w.restart(w.journal.of("v")[0].agent)
				w.pass(time.Minute)
				w.completes(t, "t", 1)
				w.completes(t, "u", 1)
				w.completes(t, "v", 2)
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
			inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
				w.submit("t", work{takes: 5 * time.Second}, c.limit)
				w.pass(500 * time.Millisecond)
				runs := w.agent(w.journal.of("t")[0].agent)
				runs.cable.cut()
				w.current().crash()
				w.pass(2 * time.Second)
				if c.cancel {
					w.desire(v1alpha1.TaskCancel)
				}
				w.elect().govern(dispatch.SwarmRules{})
				w.pass(time.Second)
				if phase := w.status("t").Phase; phase.Final() {
					t.Fatalf("%s while an agent that runs it has not been heard:\n%s", phase, w.describe())
				}
				runs.cable.mend()
				w.pass(10 * time.Second)
				if phase := w.status("t").Phase; phase != c.ends || len(w.journal.of("t")) != 1 {
					t.Errorf("%s, want %s:\n%s", phase, c.ends, w.describe())
				}
			})
		})
	}
}

// The former leader's assignment is in transit when the task is cancelled: it must not start after the final phase.
func TestCancelWaitsForAnAssignmentThatIsOnItsWay(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.agent("a").cable.slow(3 * time.Second)
		w.pass(time.Minute)
		w.submit("t", work{takes: 30 * time.Second})
		w.pass(500 * time.Millisecond)
		w.current().crash()
		w.desire(v1alpha1.TaskCancel)
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(2 * time.Minute)
		if status := w.status("t"); status.Phase != v1alpha1.TaskCancelled {
			t.Errorf("%+v\n%s", status, w.describe())
		}
	})
}

// A task that no agent can have ends when its time is over, even if a pod never reports.
func TestFinalPhaseWaitsNoLongerThanForTheLease(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.agent("a").cable.cut()
		w.current().crash()
		w.submit("t", work{})
		w.desire(v1alpha1.TaskCancel)
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(lapse - time.Second)
		if phase := w.status("t").Phase; phase.Final() {
			t.Errorf("%s before a lease and a margin have passed", phase)
		}
		w.pass(time.Second + soon)
		if phase := w.status("t").Phase; phase != v1alpha1.TaskCancelled {
			t.Errorf("%q after a lease and a margin", phase)
		}
	})
}

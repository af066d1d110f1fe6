package task

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// These tests are about orders of events that a single connection, cache and leader cannot produce. Each runs with all rules of the
// protocol, where nothing may go wrong, and without the rule under test, where the simulation must find two owners.

// runWithoutRule runs a test in a cluster with a leader and the named agents, and returns the problems in the journal.
func runWithoutRule(t *testing.T, agents []string, disabled safetyRules, test func(sim *simulation)) []string {
	t.Helper()
	var problems []string
	synctest.Test(t, func(*testing.T) {
		sim := newSimulation()
		sim.disabledRules = disabled
		defer sim.stop()
		for _, name := range agents {
			sim.startPod(name, 1)
		}
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(time.Second)
		test(sim)
		sim.auditCounters()
		problems = sim.foundProblems()
	})
	return problems
}

// requiresRule checks that a scenario succeeds with all rules, and that without one of them two agents run the same task.
func requiresRule(t *testing.T, agents []string, rule safetyRules, scenario func(sim *simulation)) {
	t.Helper()
	if problems := runWithoutRule(t, agents, safetyRules{}, scenario); len(problems) > 0 {
		t.Errorf("with all rules:\n%s", strings.Join(problems, "\n"))
	}
	if problems := runWithoutRule(t, agents, rule, scenario); !strings.Contains(strings.Join(problems, "\n"), "two owners") {
		t.Errorf("without the rule the simulation should find two owners, and found %q", problems)
	}
}

// runningAgent returns the agent that runs a task, "" if none does.
func (sim *simulation) runningAgent(task string) string {
	for _, run := range sim.attempts.runsOf(task) {
		if run.outcome == "" {
			return run.agent
		}
	}
	return ""
}

// The Hello of a connection that its agent has given up arrives after that of the next one, when the agent has been given work.
func TestHelloOfAnEarlierConnectionChangesNothing(t *testing.T) {
	requiresRule(t, []string{"a"}, safetyRules{numberedConnections: true}, func(sim *simulation) {
		sim.delayConnection("a")
		sim.advance(helloTimeout + 2*time.Second) // it has given up that connection and is linked again
		sim.submit("t", behavior{duration: time.Minute, stopDelay: 5 * time.Second})
		sim.advance(2 * time.Second)
		sim.startPod("b", 1)
		sim.advance(time.Second)
		sim.deliverDelayed()
		sim.advance(2 * time.Minute)
		if runs := sim.attempts.runsOf("t"); len(runs) != 1 && !sim.disabledRules.numberedConnections {
			sim.problem("%d runs:\n%s", len(runs), sim.describe())
		}
	})
}

// A standby whose watches are broken acquires the Lease: it knows neither that a task is assigned nor the pod that has it.
func TestLeaderElectedOnStaleCachesReassignsNothing(t *testing.T) {
	requiresRule(t, []string{"a"}, safetyRules{currentCaches: true}, func(sim *simulation) {
		sim.submit("blocker", behavior{duration: 6 * time.Second})
		sim.advance(2 * time.Second)
		sim.startPod("b", 1)
		sim.advance(time.Second)
		sim.submit("t", behavior{duration: time.Minute})
		sim.advance(2 * time.Second) // b has it, which is stored
		sim.setHidden("b", true)
		sim.process("b").network.partition() // it finds the new leader later than a does
		sim.currentLeader().crash()
		if sim.disabledRules.currentCaches {
			sim.electWithStaleCache(1).setRules(dispatch.SwarmRules{})
		}
		sim.advance(4 * time.Second) // then the watches work again
		sim.setHidden("b", false)
		if !sim.disabledRules.currentCaches {
			sim.elect().setRules(dispatch.SwarmRules{})
		}
		sim.currentLeader().cache.resume()
		sim.process("b").network.heal()
		sim.advance(2 * time.Minute)
	})
}

// The Lease is deleted: the next leader begins at once, while the former one still believes to lead, and assigns a task just before it
// finds out.
func TestTwoLeadersDoNotMakeTwoOwners(t *testing.T) {
	requiresRule(t, []string{"x", "y"}, safetyRules{waitForPredecessor: true}, func(sim *simulation) {
		sim.submit("earlier", behavior{duration: 2 * time.Second})
		sim.advance(3 * time.Second)
		sim.stealLease(renewDeadline)
		sim.advance(renewDeadline - 300*time.Millisecond)
		sim.submit("t", behavior{duration: time.Minute, ignoresStop: true})
		sim.advance(200 * time.Millisecond)
		if holder := sim.runningAgent("t"); holder != "" {
			sim.process(holder).network.partition() // and the network of its agent fails for a while
		} else {
			sim.problem("the former leader gave out nothing:\n%s", sim.describe())
		}
		sim.advance(lease)
		sim.advance(lease)
		for _, p := range sim.agents {
			p.network.heal()
		}
		sim.advance(2 * time.Minute)
	})
}

// The namespace of a short task is relabeled while the end of the task is being written: the cache still shows it unfinished.
func TestFinishedTaskIsNotRunAgainWhenItsCacheIsBehind(t *testing.T) {
	for _, lag := range []time.Duration{20 * time.Millisecond, time.Second, time.Minute, 20 * time.Minute} {
		simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
			sim.cacheLag.Store(int64(lag))
			requeued := false
			sim.faults.setBeforeStore(func(task *v1alpha1.Task) {
				if !requeued && task.Status.Phase.Final() {
					requeued = true
					sim.currentLeader().queue.After(namespacedName("t"), 0)
				}
			})
			sim.submit("t", behavior{duration: 300 * time.Millisecond})
			sim.advance(2*lag + 5*time.Minute)
			sim.assertCompleted(t, "t", 1)
		})
	}
}

// A restarted process has another identity: its predecessor's attempts move on proof of its end, not on a report of the new one.
func TestNewProcessInAPodDoesNotReportForTheOneBefore(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 40 * time.Second, ignoresStop: true})
		sim.advance(5 * time.Second)
		first := sim.process("a")
		first.network.partition()                                                                      // the first process keeps running
		sim.addProcess(sim.startProcess("a", first.podUID, 1, &podNetwork{latency: time.Millisecond})) // and a second one appears in its pod
		sim.advance(lease / 2)
		if runs := sim.attempts.runsOf("t"); len(runs) != 1 {
			t.Errorf("given away on the word of another process:\n%s", sim.describe())
		}
		sim.advance(2 * time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

// A leader dies before it has stored an assignment, its agent's pod is force-deleted, and the pod's successor links to a second leader,
// which dies as well. The third one knows of the first pod only if the second has stored its name.
func TestPodThatIsAwaitedIsKnownToTheLeaderAfterNext(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: time.Minute, ignoresStop: true})
		sim.advance(200 * time.Millisecond) // it runs, which is not stored
		sim.currentLeader().crash()
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.replacePod("a")
		sim.advance(2 * time.Second)
		sim.changeLeader()
		sim.advance(3 * time.Minute)
		sim.assertCompleted(t, "t", 2)
	})
}

package task

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// These tests are about orders of events that a single connection, cache and leader cannot produce. Each runs with all rules of the
// protocol, where nothing may go wrong, and without the rule under test, where the simulation must find two owners.

// judged runs a test in a cluster with a leader and the named agents, and returns the problems in the journal.
func judged(t *testing.T, agents []string, without rules, test func(w *cluster)) []string {
	t.Helper()
	var problems []string
	synctest.Test(t, func(*testing.T) {
		w := newCluster()
		w.without = without
		defer w.end()
		for _, name := range agents {
			w.pod(name, 1)
		}
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(time.Second)
		test(w)
		w.auditCounters()
		problems = w.found()
	})
	return problems
}

// needs checks that a scenario succeeds with all rules, and that without one of them two agents run the same task.
func needs(t *testing.T, agents []string, rule rules, scenario func(w *cluster)) {
	t.Helper()
	if problems := judged(t, agents, rules{}, scenario); len(problems) > 0 {
		t.Errorf("with all rules:\n%s", strings.Join(problems, "\n"))
	}
	if problems := judged(t, agents, rule, scenario); !strings.Contains(strings.Join(problems, "\n"), "two owners") {
		t.Errorf("without the rule the simulation should find two owners, and found %q", problems)
	}
}

// holder returns the agent that runs a task, "" if none does.
func (w *cluster) holder(task string) string {
	for _, run := range w.journal.of(task) {
		if run.outcome == "" {
			return run.agent
		}
	}
	return ""
}

// The Hello of a connection that its agent has given up arrives after that of the next one, when the agent has been given work.
func TestHelloOfAnEarlierConnectionChangesNothing(t *testing.T) {
	needs(t, []string{"a"}, rules{connectionNumbers: true}, func(w *cluster) {
		w.strand("a")
		w.pass(patience + 2*time.Second) // it has given up that connection and is linked again
		w.submit("t", work{takes: time.Minute, stops: 5 * time.Second})
		w.pass(2 * time.Second)
		w.pod("b", 1)
		w.pass(time.Second)
		w.arriveLate()
		w.pass(2 * time.Minute)
		if runs := w.journal.of("t"); len(runs) != 1 && !w.without.connectionNumbers {
			w.problem("%d runs:\n%s", len(runs), w.describe())
		}
	})
}

// A standby whose watches are broken acquires the Lease: it knows neither that a task is assigned nor the pod that has it.
func TestLeaderElectedOnCachesThatAreBehindGivesNothingAway(t *testing.T) {
	needs(t, []string{"a"}, rules{currentCaches: true}, func(w *cluster) {
		w.submit("blocker", work{takes: 6 * time.Second})
		w.pass(2 * time.Second)
		w.pod("b", 1)
		w.pass(time.Second)
		w.submit("t", work{takes: time.Minute})
		w.pass(2 * time.Second) // b has it, which is stored
		w.hide("b", true)
		w.agent("b").cable.cut() // it finds the new leader later than a does
		w.current().crash()
		if w.without.currentCaches {
			w.electBehind(1).govern(dispatch.SwarmRules{})
		}
		w.pass(4 * time.Second) // then the watches work again
		w.hide("b", false)
		if !w.without.currentCaches {
			w.elect().govern(dispatch.SwarmRules{})
		}
		w.current().cache.release()
		w.agent("b").cable.mend()
		w.pass(2 * time.Minute)
	})
}

// The Lease is deleted: the next leader begins at once, while the former one still believes to lead, and assigns a task just before it
// finds out.
func TestTwoLeadersDoNotMakeTwoOwners(t *testing.T) {
	needs(t, []string{"x", "y"}, rules{waitingAlone: true}, func(w *cluster) {
		w.submit("earlier", work{takes: 2 * time.Second})
		w.pass(3 * time.Second)
		w.usurp(renewDeadline)
		w.pass(renewDeadline - 300*time.Millisecond)
		w.submit("t", work{takes: time.Minute, stubborn: true})
		w.pass(200 * time.Millisecond)
		if given := w.holder("t"); given != "" {
			w.agent(given).cable.cut() // and the network of its agent fails for a while
		} else {
			w.problem("the former leader gave out nothing:\n%s", w.describe())
		}
		w.pass(lease)
		w.pass(lease)
		for _, p := range w.agents {
			p.cable.mend()
		}
		w.pass(2 * time.Minute)
	})
}

// The namespace of a short task is relabeled while the end of the task is being written: the cache still shows it unfinished.
func TestFinishedTaskIsNotRunAgainWhenItsCacheIsBehind(t *testing.T) {
	for _, lag := range []time.Duration{20 * time.Millisecond, time.Second, time.Minute, 20 * time.Minute} {
		inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
			w.lag.Store(int64(lag))
			asked := false
			w.faults.onStoring(func(task *v1alpha1.Task) {
				if !asked && task.Status.Phase.Final() {
					asked = true
					w.current().queue.After(named("t"), 0)
				}
			})
			w.submit("t", work{takes: 300 * time.Millisecond})
			w.pass(2*lag + 5*time.Minute)
			w.completes(t, "t", 1)
		})
	}
}

// A restarted process has another identity: its predecessor's attempts move on proof of its end, not on a report of the new one.
func TestNewProcessInAPodDoesNotSpeakForTheOneBefore(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 40 * time.Second, stubborn: true})
		w.pass(5 * time.Second)
		first := w.agent("a")
		first.cable.cut()                                                       // the first process keeps running
		w.host(w.boot("a", first.podUID, 1, &cable{latency: time.Millisecond})) // and a second one appears in its pod
		w.pass(lease / 2)
		if runs := w.journal.of("t"); len(runs) != 1 {
			t.Errorf("given away on the word of another process:\n%s", w.describe())
		}
		w.pass(2 * time.Minute)
		w.completes(t, "t", 2)
	})
}

// A leader dies before it has stored an assignment, its agent's pod is force-deleted, and the pod's successor links to a second leader,
// which dies as well. The third one knows of the first pod only if the second has stored its name.
func TestPodThatIsAwaitedIsKnownToTheLeaderAfterNext(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: time.Minute, stubborn: true})
		w.pass(200 * time.Millisecond) // it runs, which is not stored
		w.current().crash()
		w.elect().govern(dispatch.SwarmRules{})
		w.replace("a")
		w.pass(2 * time.Second)
		w.next()
		w.pass(3 * time.Minute)
		w.completes(t, "t", 2)
	})
}

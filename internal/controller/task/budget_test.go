package task

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// simulateWithBudget runs a test in a cluster with two agents and room for so many unfinished tasks.
func simulateWithBudget(t *testing.T, tasks int, test func(t *testing.T, sim *simulation)) {
	t.Helper()
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.currentLeader().crash()
		sim.budget = dispatch.Budget{Tasks: tasks}
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(time.Minute)
		test(t, sim)
	})
}

func TestTasksBeyondTheLimitAreDoneInTheirOrder(t *testing.T) {
	simulateWithBudget(t, 3, func(t *testing.T, sim *simulation) {
		const tasks = 30
		for n := range tasks {
			sim.submit(fmt.Sprintf("t%02d", n), behavior{duration: 2 * time.Second})
			sim.advance(300 * time.Millisecond)
		}
		sim.advance(time.Minute)
		for n := range tasks {
			name := fmt.Sprintf("t%02d", n)
			sim.assertCompleted(t, name, 1)
			if writes := sim.store.writeCount(name); writes > 3 { // waiting, running, done
				t.Errorf("%s: %d writes", name, writes)
			}
		}
		if started := sim.attempts.startOrder(); !slices.IsSorted(started) {
			t.Errorf("started %v", started)
		}
	})
}

// startOrder returns the names of the tasks, by the start of their attempts.
func (l *attemptLog) startOrder() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, run := range l.runs {
		names = append(names, run.task)
	}
	return names
}

func TestWaitBeyondTheLimitIsWrittenOnce(t *testing.T) {
	simulateWithBudget(t, 2, func(t *testing.T, sim *simulation) {
		for n := range 2 {
			sim.submit(fmt.Sprint("long", n), behavior{duration: 10 * time.Minute})
		}
		sim.advance(time.Second)
		sim.submit("t", behavior{})
		sim.advance(9 * time.Second)
		if got := sim.store.writeCount("t"); got != 0 {
			t.Errorf("%d writes before it has lasted", got)
		}
		sim.advance(5 * time.Minute)
		status := sim.status("t")
		if status.Phase != v1alpha1.TaskPending || status.Reason != string(v1alpha1.ReasonNamespaceLimitReached) ||
			!strings.Contains(status.Message, "limits.tasksPerNamespace") {
			t.Errorf("%+v", status)
		}
		if got := sim.store.writeCount("t"); got != 1 {
			t.Errorf("%d writes", got)
		}
		if refused := sim.currentLeader().metricValue("swarm_limit_refused_total", ""); refused != 1 {
			t.Errorf("counted %v times", refused)
		}
		sim.advance(6 * time.Minute)
		sim.assertCompleted(t, "t", 1)
	})
}

// Whatever ends a task also ends one that waits for room.
func TestTaskBeyondTheLimitEndsWithoutRoom(t *testing.T) {
	cancel := func(sim *simulation) { sim.setDesired(v1alpha1.TaskCancel) }
	for reason, c := range map[v1alpha1.Reason]struct {
		limits v1alpha1.TaskTimeouts
		then   func(*simulation)
		phase  v1alpha1.TaskPhase
	}{
		v1alpha1.ReasonCancelled: {v1alpha1.TaskTimeouts{}, cancel, v1alpha1.TaskCancelled},
		v1alpha1.ReasonTimedOut:  {v1alpha1.TaskTimeouts{QueueSeconds: 30}, nil, v1alpha1.TaskFailed},
	} {
		simulateWithBudget(t, 1, func(t *testing.T, sim *simulation) {
			sim.submit("long", behavior{duration: 10 * time.Minute})
			sim.advance(time.Second)
			sim.submit("t", behavior{}, func(spec *v1alpha1.TaskSpec) { spec.Timeouts = &c.limits })
			sim.advance(time.Second)
			if c.then != nil {
				c.then(sim)
			}
			sim.advance(time.Minute)
			if status := sim.status("t"); status.Phase != c.phase || status.Reason != string(reason) || len(sim.attempts.runsOf("t")) > 0 {
				t.Errorf("%s: %+v", reason, status)
			}
		})
	}
}

// A new leader continues running attempts, and assigns nothing twice, whatever its limits are.
func TestNewLeaderWithinItsBudgetFinishesEverything(t *testing.T) {
	simulateWithBudget(t, 2, func(t *testing.T, sim *simulation) {
		for n := range 10 {
			sim.submit(fmt.Sprint("t", n), behavior{duration: 3 * time.Second})
		}
		for range 3 {
			sim.advance(4 * time.Second)
			sim.currentLeader().crash()
			sim.elect().setRules(dispatch.SwarmRules{})
		}
		sim.advance(5 * time.Minute)
		for n := range 10 {
			if status := sim.status(fmt.Sprint("t", n)); status.Phase != v1alpha1.TaskCompleted {
				t.Errorf("%+v", status)
			}
		}
	})
}

// All promises about tasks hold with room for only a few.
func TestInvariantsHoldWithLimits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script, tasks := scriptGenerator().Draw(rt, "script"), rapid.IntRange(1, 3).Draw(rt, "tasks")
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = runScriptWithBudget(script, dispatch.Budget{Tasks: tasks}) })
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

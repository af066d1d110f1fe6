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
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// withRoomFor runs a test in a cluster with two agents and room for so many unfinished tasks.
func withRoomFor(t *testing.T, tasks int, test func(t *testing.T, w *cluster)) {
	t.Helper()
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.current().crash()
		w.budget = dispatch.Budget{Tasks: tasks}
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(time.Minute)
		test(t, w)
	})
}

func TestTasksBeyondTheLimitAreDoneInTheirOrder(t *testing.T) {
	withRoomFor(t, 3, func(t *testing.T, w *cluster) {
		const tasks = 30
		for n := range tasks {
			w.submit(fmt.Sprintf("t%02d", n), work{takes: 2 * time.Second})
			w.pass(300 * time.Millisecond)
		}
		w.pass(time.Minute)
		for n := range tasks {
			name := fmt.Sprintf("t%02d", n)
			w.completes(t, name, 1)
			if writes := w.store.written(name); writes > 3 { // waiting, running, done
				t.Errorf("%s: %d writes", name, writes)
			}
		}
		if started := w.journal.order(); !slices.IsSorted(started) {
			t.Errorf("started %v", started)
		}
	})
}

// order returns the names of the tasks, by the start of their attempts.
func (j *journal) order() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var names []string
	for _, run := range j.runs {
		names = append(names, run.task)
	}
	return names
}

func TestTaskBeyondTheLimitSaysSoOnce(t *testing.T) {
	withRoomFor(t, 2, func(t *testing.T, w *cluster) {
		for n := range 2 {
			w.submit(fmt.Sprint("long", n), work{takes: 10 * time.Minute})
		}
		w.pass(time.Second)
		w.submit("t", work{})
		w.pass(9 * time.Second)
		if got := w.store.written("t"); got != 0 {
			t.Errorf("%d writes before it has lasted", got)
		}
		w.pass(5 * time.Minute)
		status := w.status("t")
		if status.Phase != v1alpha1.TaskPending || status.Reason != string(v1alpha1.ReasonNamespaceLimitReached) || !strings.Contains(status.Message, "limits.tasksPerNamespace") {
			t.Errorf("%+v", status)
		}
		if got := w.store.written("t"); got != 1 {
			t.Errorf("%d writes", got)
		}
		if refused := w.current().count("swarm_limit_refused_total", ""); refused != 1 {
			t.Errorf("counted %v times", refused)
		}
		w.pass(6 * time.Minute)
		w.completes(t, "t", 1)
	})
}

// Whatever ends a task also ends one that waits for room.
func TestTaskBeyondTheLimitEndsWithoutRoom(t *testing.T) {
	cancel := func(w *cluster) { w.desire(v1alpha1.TaskCancel) }
	for reason, c := range map[v1alpha1.Reason]struct {
		limits v1alpha1.TaskTimeouts
		then   func(*cluster)
		phase  v1alpha1.TaskPhase
	}{
		v1alpha1.ReasonCancelled: {v1alpha1.TaskTimeouts{}, cancel, v1alpha1.TaskCancelled},
		v1alpha1.ReasonTimedOut:  {v1alpha1.TaskTimeouts{QueueSeconds: 30}, nil, v1alpha1.TaskFailed},
	} {
		withRoomFor(t, 1, func(t *testing.T, w *cluster) {
			w.submit("long", work{takes: 10 * time.Minute})
			w.pass(time.Second)
			w.submit("t", work{}, func(spec *v1alpha1.TaskSpec) { spec.Timeouts = &c.limits })
			w.pass(time.Second)
			if c.then != nil {
				c.then(w)
			}
			w.pass(time.Minute)
			if status := w.status("t"); status.Phase != c.phase || status.Reason != string(reason) || len(w.journal.of("t")) > 0 {
				t.Errorf("%s: %+v", reason, status)
			}
		})
	}
}

// A new leader continues running attempts, and assigns nothing twice, whatever its limits are.
func TestNewLeaderWithinItsBudgetFinishesEverything(t *testing.T) {
	withRoomFor(t, 2, func(t *testing.T, w *cluster) {
		for n := range 10 {
			w.submit(fmt.Sprint("t", n), work{takes: 3 * time.Second})
		}
		for range 3 {
			w.pass(4 * time.Second)
			w.current().crash()
			w.elect().govern(dispatch.SwarmRules{})
		}
		w.pass(5 * time.Minute)
		for n := range 10 {
			if status := w.status(fmt.Sprint("t", n)); status.Phase != v1alpha1.TaskCompleted {
				t.Errorf("%+v", status)
			}
		}
	})
}

// All promises about tasks hold with room for only a few.
func TestLimitsChangeNoPromise(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script, tasks := scripts().Draw(rt, "script"), rapid.IntRange(1, 3).Draw(rt, "tasks")
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = playWith(script, dispatch.Budget{Tasks: tasks}) })
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

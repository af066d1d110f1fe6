package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// countFinishedAs counts the assignments that an agent gets in a time, all of which it ends with an outcome at once.
func (f *fixture) countFinishedAs(agent link.Agent, outcome linkv1.Outcome, lasts time.Duration) int {
	all := 0
	for until := time.Now().Add(lasts); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		f.heardAt[agent] = time.Now()
		for _, attempt := range f.assignPending() {
			all++
			f.sendResult(agent, attempt, outcome)
			f.storeStatus(f.createdTasks[attempt.GetTask()])
		}
		f.grantCredit(agent, f.agents[agent].creditUsed+10)
	}
	return all
}

// assignPending returns the attempts that are assigned now, written first where that is required.
func (f *fixture) assignPending() []*linkv1.Attempt {
	f.runStep()
	for _, name := range slices.Sorted(maps.Keys(f.createdTasks)) {
		if view := f.Observe(f.createdTasks[name], TaskInput{}); view.Assignment != nil && !view.Assignment.First {
			f.storeStatus(f.createdTasks[name])
		}
	}
	return f.takeAssignments()
}

// withBacklog runs a test with an agent of ten slots and more tasks than it can get.
func withBacklog(t *testing.T, test func(t *testing.T, f *fixture, a link.Agent)) {
	t.Helper()
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 10)
		f.createdTasks = map[string]*v1alpha1.Task{}
		for n := range 50 {
			task := f.createTask(fmt.Sprint("t", n), "s")
			f.createdTasks[task.Name] = task
		}
		test(t, f, a)
	})
}

// Each round costs two writes, for each of the waiting tasks: pauses of the tasks alone do not bound them.
func TestAgentThatRunsNothingBacksOff(t *testing.T) {
	for _, outcome := range []linkv1.Outcome{linkv1.Outcome_OUTCOME_HANDED_BACK, linkv1.Outcome_OUTCOME_DECLINED,
		linkv1.Outcome_OUTCOME_CANCELLED} {
		withBacklog(t, func(t *testing.T, f *fixture, a link.Agent) {
			if assigned := f.countFinishedAs(a, outcome, 10*time.Minute); assigned < 20 ||
				assigned > 40 { // ten at once, then one after 1, 3, 7, 15, 31, 61 s and so on
				t.Errorf("%s: %d attempts in 10 minutes", outcome, assigned)
			}
			if assigned := f.countFinishedAs(a, linkv1.Outcome_OUTCOME_SUCCEEDED, 2*time.Minute); assigned < 100 {
				t.Errorf("%s: only %d attempts after it works again", outcome, assigned)
			}
		})
	}
}

func TestAgentThatReceivesNothingBacksOff(t *testing.T) {
	withBacklog(t, func(t *testing.T, f *fixture, a link.Agent) {
		all := 0
		for range 600 {
			f.sendHello(t, a, "p", &linkv1.Hello{Slots: 10})
			for _, attempt := range f.assignPending() {
				all++
				f.storeStatus(f.createdTasks[attempt.GetTask()])
			}
			time.Sleep(time.Second)
		}
		if all < 20 || all > 40 {
			t.Errorf("%d attempts in 10 minutes", all)
		}
	})
}

// One lasting attempt is enough to get more.
func TestAgentIsTrustedWhenAnAttemptLasts(t *testing.T) {
	withBacklog(t, func(t *testing.T, f *fixture, a link.Agent) {
		f.countFinishedAs(a, linkv1.Outcome_OUTCOME_DECLINED, 500*time.Millisecond)
		time.Sleep(initialBackoff)
		if attempts := f.assignPending(); len(attempts) != 1 {
			t.Fatalf("%d attempts after its rest", len(attempts))
		}
		if next := f.step(time.Now()); next > probationPeriod {
			t.Errorf("looks again in %s", next)
		}
		time.Sleep(probationPeriod)
		f.heardAt[a] = time.Now()
		if attempts := f.assignPending(); len(attempts) != 9 {
			t.Errorf("%d attempts after the first has lasted", len(attempts))
		}
	})
}

// An attempt that is handed back at the operator's request is not the agent's fault.
func TestAgentThatIsAskedToStopDoesNotBackOff(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		task := f.createTask("t", "s")
		for n := range 5 {
			f.runStep()
			f.storeStatus(task)
			attempts := f.takeAssignments()
			if len(attempts) != 1 {
				t.Fatalf("given %v after %d", attempts, n)
			}
			f.Observe(task, TaskInput{Stop: HandBack})
			f.sendResult(a, attempts[0], linkv1.Outcome_OUTCOME_HANDED_BACK)
			f.storeStatus(task)
			f.grantCredit(a, 10)
		}
	})
}

package dispatch

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func namespacedName(object string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: object}
}

// takeTriggerDelays returns the delays of the requests for an object since the last call.
func (f *fixture) takeTriggerDelays(name string) []time.Duration {
	var delays []time.Duration
	for _, trigger := range f.triggers {
		if trigger.name == name {
			delays = append(delays, trigger.delay)
		}
	}
	f.triggers = nil
	return delays
}

// A swarm that waits for its last attempt to end is reconciled when that has happened. Otherwise only its numbers have changed.
func TestSwarmIsReconciledWhenItsLastAttemptEnds(t *testing.T) {
	for _, c := range []struct {
		why   string
		rules SwarmRules
		tasks int
		want  time.Duration
	}{
		{"nothing waits", SwarmRules{}, 1, statusWriteInterval},
		{"the swarm is halted", SwarmRules{Halt: &Wait{}}, 1, 0},
		{"the agent leaves", SwarmRules{LeavingAgents: []string{"a"}}, 1, 0},
		{"another attempt runs", SwarmRules{Halt: &Wait{}}, 2, statusWriteInterval},
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			a := f.joinAgent(t, "a", "s", 2)
			for _, name := range []string{"t", "u"}[:c.tasks] {
				f.createTask(name, "s")
			}
			f.runStep()
			attempts := f.takeAssignments()
			f.SetSwarm(namespacedName("s"), c.rules)
			f.triggers = nil
			f.sendResult(a, attempts[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
			if delays := f.takeTriggerDelays("s"); !slices.Contains(delays, c.want) || c.want > 0 && slices.Contains(delays, 0) {
				t.Errorf("%s: looked at after %v, want %s", c.why, delays, c.want)
			}
		})
	}
}

func TestEndsAreWrittenAtOnce(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, _, attempt := f.runningTask(t)
		f.triggers = nil
		f.sendResult(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if delays := f.takeTriggerDelays("t"); !slices.Contains(delays, 0) {
			t.Errorf("a result is written after %v", delays)
		}
	})
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, _, _ := f.runningTask(t)
		f.Left(a)
		f.triggers = nil
		time.Sleep(f.leaseTimeout())
		f.runStep()
		if delays := f.takeTriggerDelays("t"); !slices.Contains(delays, 0) {
			t.Errorf("a loss is written after %v", delays)
		}
	})
}

// Tasks that were blocked because their swarm was unknown are reconciled when it appears.
func TestTasksAreReconciledWhenTheirSwarmAppears(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.createTask("t", "s")
		f.Observe(task, TaskInput{Blocked: &Wait{Reason: v1alpha1.ReasonSwarmNotFound}})
		f.createTask("free", "s")
		f.triggers = nil
		f.setSwarms("s")
		if delays := f.takeTriggerDelays("t"); !slices.Equal(delays, []time.Duration{0}) {
			t.Errorf("looked at after %v", delays)
		}
		f.setSwarms("s")
		if delays := f.takeTriggerDelays("t"); len(delays) != 0 {
			t.Error("looked at again, and nothing has changed")
		}
	})
}

func TestWaitIsReportedWhenItsReasonChanges(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		task := f.createTask("t", "s")
		f.triggers = nil
		f.runStep()
		if delays := f.takeTriggerDelays("t"); !slices.Equal(delays, []time.Duration{longReportDelay}) {
			t.Errorf("told after %v that there is no agent yet", delays)
		}
		if view := f.Observe(task, TaskInput{}); view.Wait == nil || view.Wait.Reason != v1alpha1.ReasonNoAgentReady {
			t.Errorf("got %+v", view.Wait)
		}
		f.SetSwarm(namespacedName("s"), SwarmRules{})
		f.runStep()
		if delays := f.takeTriggerDelays("t"); len(delays) != 0 {
			t.Errorf("told again after %v", delays)
		}
	})
}

// Run runs again when a leaving agent's time is over.
func TestLeaveGracePeriodIsScheduled(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, _, _ := f.runningTask(t)
		f.SetSwarm(namespacedName("s"), SwarmRules{LeavingAgents: []string{"a"}})
		time.Sleep(leaveGracePeriod - time.Second)
		f.heardAt[a] = time.Now()
		if next := f.step(time.Now()); next != time.Second {
			t.Errorf("looks again after %s", next)
		}
	})
}

func TestChangesWakeTheDispatcher(t *testing.T) {
	for why, change := range map[string]func(f *fixture){
		"new rules":  func(f *fixture) { f.setSwarms("s") },
		"a new task": func(f *fixture) { f.createTask("other", "s") },
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			f.runStep()
			select {
			case <-f.wake:
			default:
			}
			change(f)
			select {
			case <-f.wake:
			default:
				t.Errorf("%s does not wake it", why)
			}
		})
	}
}

func TestStatusOfATaskRemembersItsLastWrite(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		_, task, _ := f.runningTask(t)
		wrote := f.Observe(task, TaskInput{}).LastWrite
		if !wrote.Equal(time.Now()) {
			t.Errorf("wrote at %s", wrote)
		}
		time.Sleep(time.Second)
		f.MarkStored(task, nil)
		if again := f.Observe(task, TaskInput{}).LastWrite; !again.Equal(wrote) {
			t.Error("nothing was written")
		}
	})
}

package dispatch

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// An agent that drains, or is to leave, gets nothing, and tasks say that it is the reason.
func TestAgentThatDrainsOrLeavesGetsNothing(t *testing.T) {
	for reason, makeUnavailable := range map[string]func(*fixture, link.Agent){
		"it drains": func(f *fixture, agent link.Agent) {
			credit := &linkv1.Credit{Granted: 4, Draining: true}
			f.Received(agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: credit}})
		},
		"it is to leave": func(f *fixture, _ link.Agent) { f.SetSwarm(swarmName, SwarmRules{LeavingAgents: []string{"a"}}) },
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			agent := f.joinAgent(t, "a", "s", 4)
			makeUnavailable(f, agent)
			task := f.createTask("t", "s")
			f.runStep()
			if attempts := f.takeAssignments(); len(attempts) > 0 {
				t.Errorf("%s: it was assigned %v", reason, attempts)
			}
			if wait := f.Observe(task, TaskInput{}).Wait; wait == nil || !strings.Contains(wait.Message, "(1 of them draining)") {
				t.Errorf("%s: waits for %+v", reason, wait)
			}
		})
	}
}

// A process of an older version does not name itself. When its pod no longer has an attempt, it may have run and ended.
func TestAttemptOfAnUnnamedProcessIsLost(t *testing.T) {
	for process, lost := range map[string]bool{"": true, "p": false} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			agent := f.joinAgent(t, "a", "s", 1)
			f.Left(agent)
			f.sendHello(t, agent, process, &linkv1.Hello{})
			task := f.createTask("t", "s")
			f.runStep()
			f.storeStatus(task)
			f.Left(agent)
			f.sendHello(t, agent, process, &linkv1.Hello{})
			end := f.Observe(task, TaskInput{}).End
			if end == nil || end.Lost != lost || end.Undelivered == lost {
				t.Errorf("process %q: ended as %+v, want lost %t", process, end, lost)
			}
		})
	}
}

// Agents that are gone leave nothing behind.
func TestAgentIsForgottenWhenItsLastProcessHasEnded(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent, _, _ := f.runningTask(t)
		process := f.agents[agent].process
		f.Left(agent)
		f.RemoveAgent(namespacedName("a"))
		if f.agents[agent] == nil {
			t.Fatal("forgotten while its process may run")
		}
		time.Sleep(f.leaseTimeout() + time.Second)
		f.MarkProcessEnded(namespacedName("a"), process)
		if state := f.agents[agent]; state != nil {
			t.Errorf("kept: %+v", state)
		}
		if view := f.Agent(namespacedName("a")); !reflect.DeepEqual(view, AgentView{}) {
			t.Errorf("it is still shown: %+v", view)
		}
	})
}

// The counts of an agent are written later than the result that they count.
func TestResultSchedulesTheCountsOfItsAgent(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent, _, attempt := f.runningTask(t)
		f.triggers = nil
		f.sendResult(agent, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		triggers := slices.Clone(f.triggers)
		if delays := f.takeTriggerDelays("a"); !slices.Contains(delays, statusWriteInterval) {
			t.Errorf("triggered %v", triggers)
		}
	})
}

// Tasks never leave their swarm, and an agent whose object is gone is about to go itself.
func TestOnlyAgentsOfTheSwarmGetItsTasks(t *testing.T) {
	for reason, c := range map[string]struct {
		swarm    string
		deleted  bool
		assigned int
	}{
		"its own":                  {"s", false, 1},
		"another swarm's":          {"r", false, 0},
		"one without its object":   {"s", true, 0},
		"another's without object": {"r", true, 0},
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s", "r")
			f.joinAgent(t, "a", c.swarm, 4)
			if c.deleted {
				f.RemoveAgent(namespacedName("a"))
			}
			f.createTask("t", "s")
			f.runStep()
			if attempts := f.takeAssignments(); len(attempts) != c.assigned {
				t.Errorf("%s: assigned %v", reason, attempts)
			}
		})
	}
}

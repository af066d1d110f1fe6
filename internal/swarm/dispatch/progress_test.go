package dispatch

import (
	"testing"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// reportProgress sends progress of an attempt and returns what the agent then shows of it.
func (f *fixture) reportProgress(agent link.Agent, attempt *linkv1.Attempt, percent int32, message string) int32 {
	f.Received(agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: attempt, Percent: percent,
		Message: message}}})
	return f.Agent(f.agents[agent].objectKey()).Workload.Running[0].Progress
}

func TestProgressNeverGoesBackWithinAnAttempt(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent, task, attempt := f.assignTask(t)
		for _, c := range []struct{ reported, want int32 }{{40, 40}, {20, 40}, {-5, 40}, {60, 60}, {0, 60}, {100, 99}, {250, 99}, {70, 99}} {
			if got := f.reportProgress(agent, attempt, c.reported, "working"); got != c.want {
				t.Errorf("after a report of %d %%: %d %%, want %d %%", c.reported, got, c.want)
			}
		}
		f.reportProgress(agent, attempt, 1, "almost there")
		if view := f.Observe(task, TaskInput{}); view.Assignment.Progress != 99 || view.Assignment.Message != "almost there" {
			t.Errorf("the message of a late percentage is lost: %+v", view.Assignment)
		}
	})
}

// A later attempt starts at zero: the progress of an earlier one does not count.
func TestProgressOfTheNextAttemptStartsAnew(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent, task, first := f.assignTask(t)
		f.reportProgress(agent, first, 80, "")
		f.sendResult(agent, first, linkv1.Outcome_OUTCOME_HANDED_BACK)
		f.storeStatus(task)
		f.grantCredit(agent, 2)
		f.runStep()
		f.storeStatus(task)
		second := f.takeAssignments()[0]
		if second.GetEpoch() <= first.GetEpoch() {
			t.Fatalf("epoch %d after %d", second.GetEpoch(), first.GetEpoch())
		}
		if got := f.reportProgress(agent, second, 10, ""); got != 10 {
			t.Errorf("the second attempt shows %d %%, want 10 %%", got)
		}
	})
}

// A task waits in the line of its namespace when an agent names an attempt of it, which a former leader assigned and never wrote.
func TestProgressDoesNotCancelAnAttemptWhoseTaskWaitsForRoom(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, f *fixture) {
		f.Observe(f.taskCreatedAt("first", 0), TaskInput{})
		second := f.taskCreatedAt("second", 1)
		if view := f.Observe(second, TaskInput{}); view.Wait == nil || view.Wait.Reason != v1alpha1.ReasonNamespaceLimitReached {
			t.Fatalf("the second task does not wait in line: %+v", view)
		}
		f.term = 2
		attempt := &linkv1.Attempt{Namespace: "ns", Task: "second", TaskUid: "uid-second", Attempt: 1, Epoch: 1<<32 | 1}
		agent := f.joinAgent(t, "a", "s", 1, attempt)
		f.sendProgress(agent, attempt)
		if stopped := f.takeCancelledEpochs(); len(stopped) != 0 || f.staleCount(t, staleProgress) != 0 {
			t.Fatalf("cancelled %v", stopped)
		}
		if view := f.Observe(second, TaskInput{}); view.Assignment == nil || view.Assignment.Epoch != attempt.GetEpoch() {
			t.Fatalf("the attempt is not resumed with its task: %+v", view)
		}
		if got := f.reportProgress(agent, attempt, 60, ""); got != 60 {
			t.Errorf("after it was resumed it shows %d %%, want 60 %%", got)
		}
	})
}

// What the agent has not named as running, or has named as ended, is not resumed.
func TestProgressOfAnAttemptThatIsNotToBeResumedIsCancelled(t *testing.T) {
	attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 1}
	for name, before := range map[string]func(*testing.T, *fixture, link.Agent){
		"never named": func(*testing.T, *fixture, link.Agent) {},
		"ended": func(_ *testing.T, f *fixture, agent link.Agent) {
			f.sendResult(agent, attempt, linkv1.Outcome_OUTCOME_FAILED)
		},
		"of the former process": func(t *testing.T, f *fixture, agent link.Agent) {
			f.Left(agent)
			f.sendHello(t, agent, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
			f.Left(agent)
			f.Forget(namespacedName("t"))
			f.sendHello(t, agent, "q", &linkv1.Hello{})
		},
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.term = 2
			agent := f.joinAgent(t, "a", "s", 1)
			before(t, f, agent)
			f.sent = nil
			f.sendProgress(agent, attempt)
			if stopped := f.takeCancelledEpochs(); len(stopped) != 1 || f.staleCount(t, staleProgress) != 1 {
				t.Errorf("%s: cancelled %v", name, stopped)
			}
		})
	}
}

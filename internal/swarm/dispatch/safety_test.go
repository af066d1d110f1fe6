package dispatch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// takeCancels returns the stop orders that were sent since the last call.
func (f *fixture) takeCancels() []*linkv1.Cancel {
	var list []*linkv1.Cancel
	for _, message := range f.sent {
		if cancel := message.GetCancel(); cancel != nil {
			list = append(list, cancel)
		}
	}
	f.sent = nil
	return list
}

func (f *fixture) takeAcknowledged() (count int) {
	for _, message := range f.sent {
		if message.GetAcknowledge() != nil {
			count++
		}
	}
	f.sent = nil
	return count
}

var swarmName = types.NamespacedName{Namespace: "ns", Name: "s"}

func TestStopIsOrderedOnceForEachKind(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		_, task, _ := f.assignTask(t)
		for _, c := range []struct {
			stop StopMode
			want int
		}{{Continue, 0}, {HandBack, 1}, {HandBack, 0}, {Cancel, 1}, {Cancel, 0}} {
			f.Observe(task, TaskInput{Stop: c.stop})
			got := f.takeCancels()
			if len(got) != c.want || c.want == 1 && got[0].GetHandBack() != (c.stop == HandBack) {
				t.Errorf("stop %v: sent %v, want %d", c.stop, got, c.want)
			}
		}
	})
}

func TestAttemptOfASilentAgentIsLostAfterLeaseAndMargin(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		_, task, attempt := f.assignTask(t)
		time.Sleep(f.leaseTimeout() - time.Millisecond)
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.End != nil {
			t.Fatalf("given up while the agent may work: %+v", view)
		}
		time.Sleep(time.Millisecond)
		f.runStep()
		view := f.Observe(task, TaskInput{})
		if view.Assignment != nil || view.End == nil || !view.End.Lost || view.End.Epoch != attempt.GetEpoch() || view.End.Agent != "a" {
			t.Errorf("got %+v, %+v", view.Assignment, view.End)
		}
	})
}

func TestOnlyAnAgentThatLeavesIsAskedToHandBack(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		agent := f.joinAgent(t, "a", "s", 1)
		f.createTask("t", "s")
		f.runStep()
		f.sent = nil
		wait := func(period time.Duration) []*linkv1.Cancel {
			time.Sleep(period)
			f.heardAt[agent] = time.Now()
			f.runStep()
			return f.takeCancels()
		}
		if got := wait(10 * leaveGracePeriod); len(got) > 0 {
			t.Errorf("an agent that stays was told %v", got)
		}
		f.SetSwarm(swarmName, SwarmRules{LeavingAgents: []string{"a"}})
		if got := wait(leaveGracePeriod - time.Second); len(got) > 0 {
			t.Errorf("asked before its time to finish was over: %v", got)
		}
		if got := wait(time.Second); len(got) != 1 || !got[0].GetHandBack() {
			t.Errorf("told %v", got)
		}
		if got := wait(time.Second); len(got) > 0 {
			t.Errorf("told again: %v", got)
		}
	})
}

// An agent that cannot hand back is asked to cancel: it would hold its slot for as long as its code likes, and block the
// agent that should leave, or a task that should wait.
func TestAgentThatCannotHandBackIsSentCancel(t *testing.T) {
	stops := map[string]func(f *fixture, task *v1alpha1.Task){
		"its agent leaves": func(f *fixture, _ *v1alpha1.Task) {
			f.SetSwarm(swarmName, SwarmRules{LeavingAgents: []string{"a"}})
			time.Sleep(leaveGracePeriod)
			f.heardAt[link.Agent{Namespace: "ns", Name: "a"}] = time.Now()
			f.runStep()
		},
		"the task is suspended": func(f *fixture, task *v1alpha1.Task) { f.Observe(task, TaskInput{Stop: HandBack}) },
	}
	for reason, stop := range stops {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.noHandBack = true
			agent, task, attempt := f.assignTask(t)
			stop(f, task)
			if got := f.takeCancels(); len(got) != 1 || got[0].GetHandBack() || got[0].GetAttempt().GetEpoch() != attempt.GetEpoch() {
				t.Fatalf("%s: told %v, want one Cancel", reason, got)
			}
			stop(f, task)
			if got := f.takeCancels(); len(got) > 0 {
				t.Errorf("%s: told again: %v", reason, got)
			}
			f.sendResult(agent, attempt, linkv1.Outcome_OUTCOME_CANCELLED)
			if busy := f.attemptCount(swarmName, "a"); busy != 0 {
				t.Errorf("%s: the agent still holds %d attempts", reason, busy)
			}
		})
	}
}

// If the same pod does not name an assignment, it does not have it. Another pod of that name proves nothing.
func TestHelloThatDoesNotMentionAnAttempt(t *testing.T) {
	for pod, lost := range map[string]bool{"pod-a": true, "pod-successor": false} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			agent := f.joinAgent(t, "a", "s", 1)
			task := f.createTask("t", "s")
			f.runStep()
			if len(f.takeAssignments()) != 1 {
				t.Fatal("nothing was given out")
			}
			f.storeStatus(task)
			if err := f.Joined(agent, pod, &linkv1.Hello{Swarm: "s", Slots: 1}); err != nil {
				t.Fatal(err)
			}
			f.grantCredit(agent, 1)
			if view := f.Observe(task, TaskInput{}); (view.End != nil) != lost || (view.Assignment != nil) == lost {
				t.Errorf("%s: held %+v, ended %+v", pod, view.Assignment, view.End)
			}
		})
	}
}

// The Lease may have been deleted: then other leaders may share this leader's term.
func TestEpochsGrowAboveThoseOfTheSameTerm(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		highest := int64(1)<<32 | 700
		f.joinAgent(t, "a", "s", 2, &linkv1.Attempt{Namespace: "ns", Task: "unknown", TaskUid: "u", Attempt: 1, Epoch: highest})
		f.createTask("t", "s")
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetEpoch() <= highest {
			t.Errorf("given %v, and %d was there before", attempts, highest)
		}
	})
}

func TestAgentOfALaterTermIsTurnedAwayOnce(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := link.Agent{Namespace: "ns", Name: "a"}
		hello := &linkv1.Hello{Swarm: "s", Slots: 1, Term: 8}
		if err := f.Joined(agent, "pod-a", hello); err == nil {
			t.Fatal("taken in by a leader of an earlier term")
		}
		if err := f.Joined(agent, "pod-a", hello); err != nil || f.term != 9 {
			t.Errorf("term %d: %v", f.term, err)
		}
	})
}

func TestBusyCountsTheAgentsOfASwarm(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s", "other")
		f.joinAgent(t, "a", "s", 2)
		f.joinAgent(t, "b", "s", 2)
		f.joinAgent(t, "c", "other", 2)
		for _, name := range []string{"t", "u", "v"} {
			f.createTask(name, "s")
		}
		f.createTask("w", "other")
		if epoch := f.Epoch(swarmName); epoch != 0 {
			t.Errorf("epoch %d before anything was given out", epoch)
		}
		f.runStep()
		highest := int64(0)
		for _, attempt := range f.takeAssignments() {
			if attempt.GetTask() != "w" {
				highest = max(highest, attempt.GetEpoch())
			}
		}
		a, b := f.attemptCount(swarmName, "a"), f.attemptCount(swarmName, "b")
		if a+b != 3 || a == 0 || b == 0 || f.attemptCount(swarmName, "") != 3 || f.attemptCount(swarmName, "c") != 0 {
			t.Errorf("a %d, b %d, all %d, c %d", a, b, f.attemptCount(swarmName, ""), f.attemptCount(swarmName, "c"))
		}
		if f.Epoch(swarmName) != highest || f.Epoch(types.NamespacedName{Namespace: "ns", Name: "unknown"}) != 0 {
			t.Errorf("epoch %d, want %d", f.Epoch(swarmName), highest)
		}
	})
}

func TestRemovedSwarmAssignsNothing(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 1)
		f.RemoveSwarm(swarmName)
		f.createTask("t", "s")
		f.requireNoneAssigned(t)
	})
}

// A task that a user finished, for example by cancelling it, must not continue unnoticed.
func TestTaskStoredAsFinalIsStopped(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		_, task, _ := f.assignTask(t)
		task.Status.Phase = v1alpha1.TaskCancelled
		f.bumpVersion(task)
		f.MarkStored(task, nil)
		if got := f.takeCancels(); len(got) == 0 || got[0].GetHandBack() {
			t.Errorf("told %v", got)
		}
		if f.tasks[nameOf(task)] != nil || f.attemptCount(swarmName, "a") != 1 {
			t.Errorf("busy %d: the slot is taken until the agent has stopped", f.attemptCount(swarmName, "a"))
		}
	})
}

func TestResultIsAcknowledgedOnlyWhenItIsStored(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent, task, attempt := f.assignTask(t)
		f.sendResult(agent, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		f.sendResult(agent, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED) // again
		f.Observe(task, TaskInput{})
		f.MarkStored(task, nil) // the version before the result
		if got := f.takeAcknowledged(); got != 0 {
			t.Fatal("the agent may forget a result that is not stored")
		}
		f.storeStatus(task)
		if got := f.takeAcknowledged(); got != 1 {
			t.Errorf("acknowledged %d times, want once", got)
		}
	})
}

// An agent that reported what it runs and then fell silent holds it until its lease is over, even if the task becomes known later.
func TestAttemptOfAnAgentThatLeftExpiresWithItsLease(t *testing.T) {
	withFixture(t, []corev1.Pod{pod("a", "s")}, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		agent := f.joinAgent(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 5})
		f.Left(agent)
		time.Sleep(5 * time.Second)
		task := f.createTask("t", "s")
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Agent != "a" {
			t.Fatalf("held %+v", view.Assignment)
		}
		f.heardAt[agent] = time.Now() // does not count: the stream is gone
		time.Sleep(f.leaseTimeout() - 5*time.Second)
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.End == nil || !view.End.Lost {
			t.Errorf("held %+v, ended %+v", view.Assignment, view.End)
		}
	})
}

func TestAgentIsForgottenWhicheverGoesFirst(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		first, second := f.joinAgent(t, "a", "s", 1), f.joinAgent(t, "b", "s", 1)
		f.Left(first)
		f.RemoveAgent(f.agents[first].objectKey())
		f.RemoveAgent(f.agents[second].objectKey())
		f.Left(second)
		if len(f.agents) != 0 {
			t.Errorf("%d agents are remembered", len(f.agents))
		}
	})
}

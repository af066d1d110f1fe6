package dispatch

import (
	"slices"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// lostTask returns a task whose attempt was given up and stored as lost.
func (f *fixture) lostTask(t *testing.T) (*v1alpha1.Task, *linkv1.Attempt) {
	t.Helper()
	a, task, attempt := f.runningTask(t)
	f.Left(a)
	f.SetSwarm(namespacedName("s"), SwarmRules{Halt: &Wait{}}) // it is not assigned again
	time.Sleep(f.leaseTimeout())
	f.runStep()
	f.storeStatus(task)
	return task, attempt
}

func TestLateResultOfALostAttempt(t *testing.T) {
	for outcome, counts := range map[linkv1.Outcome]bool{
		linkv1.Outcome_OUTCOME_SUCCEEDED: true, linkv1.Outcome_OUTCOME_FAILED: false, linkv1.Outcome_OUTCOME_HANDED_BACK: false,
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			task, attempt := f.lostTask(t)
			f.sendHello(t, leasedAgent, "p", &linkv1.Hello{Unacknowledged: []*linkv1.Result{{Attempt: attempt, Outcome: outcome}}})
			if view := f.Observe(task, TaskInput{}); (view.End != nil) != counts {
				t.Errorf("%s after the attempt was lost: %+v", outcome, view.End)
			}
		})
	}
}

// A former leader assigned the task and wrote nothing: its agent has finished it, while this leader's attempt runs on another one.
func TestResultOfALaterEpochStopsTheAttemptThatRuns(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		_, task, attempt := f.runningTask(t)
		b := f.joinAgent(t, "b", "s", 1)
		f.sent = nil
		f.sequence += 5 // issued by an earlier leader of the same term
		later := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: attempt.GetAttempt() + 3, Epoch: attempt.GetEpoch() + 5}
		f.sendResult(b, later, linkv1.Outcome_OUTCOME_FAILED)
		if view := f.Observe(task, TaskInput{}); view.End == nil || view.End.Epoch != later.GetEpoch() {
			t.Fatalf("got %+v", view)
		}
		if len(f.sent) != 1 || f.sent[0].GetCancel().GetAttempt().GetEpoch() != attempt.GetEpoch() {
			t.Errorf("sent %v, want the end of the attempt that runs", f.sent)
		}
		f.storeStatus(task)
		time.Sleep(2 * declinedPause)
		f.heardAt[leasedAgent], f.heardAt[b] = time.Now(), time.Now()
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Attempt != later.GetAttempt()+1 {
			t.Errorf("the next attempt is %+v", view.Assignment)
		}
	})
}

func TestAssignmentCarriesTheLimitsOfItsTask(t *testing.T) {
	for _, c := range []struct {
		limits        *v1alpha1.TaskTimeouts
		run, progress time.Duration
	}{
		{nil, 0, 0},
		{&v1alpha1.TaskTimeouts{}, 0, 0},
		{&v1alpha1.TaskTimeouts{RunSeconds: 1, HeartbeatSeconds: 2}, time.Second, 2 * time.Second},
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			f.joinAgent(t, "a", "s", 1)
			task := f.createTask("t", "s")
			task.Spec.Timeouts = c.limits
			f.bumpVersion(task)
			f.Observe(task, TaskInput{})
			f.runStep()
			assign := f.sent[0].GetAssign()
			if assign.GetRunTimeout().AsDuration() != c.run || assign.GetProgressTimeout().AsDuration() != c.progress {
				t.Errorf("%+v: got %s and %s", c.limits, assign.GetRunTimeout().AsDuration(), assign.GetProgressTimeout().AsDuration())
			}
			if c.run == 0 && assign.GetRunTimeout() != nil {
				t.Error("a limit of nothing is none")
			}
		})
	}
}

func TestTermIsRaisedAboveTheEpochOfASwarm(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		swarm := v1alpha1.Swarm{}
		swarm.Status.Epoch = 7<<32 | 3
		f.Open(Snapshot{Swarms: []v1alpha1.Swarm{swarm}})
		if f.term != 8 {
			t.Errorf("the term is %d", f.term)
		}
	})
}

func TestAgentShowsWhatItRunsByName(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 3)
		for _, name := range []string{"y", "x", "z"} {
			f.createTask(name, "s")
		}
		f.runStep()
		var names []string
		for _, running := range f.Agent(namespacedName("a")).Workload.Running {
			names = append(names, running.Task)
		}
		if !slices.Equal(names, []string{"x", "y", "z"}) {
			t.Errorf("got %q", names)
		}
	})
}

func TestHasOrphansOnlyForAttemptsThatAgentsName(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.joinAgent(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "unknown", TaskUid: "u", Attempt: 1, Epoch: 1})
		if !f.HasOrphans(namespacedName("unknown")) || f.HasOrphans(namespacedName("another")) {
			t.Error("want the task that the agent names, and no other")
		}
	})
}

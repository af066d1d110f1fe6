package dispatch

import (
	"slices"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// lost returns a task whose attempt was given up and stored as lost.
func (d *desk) lost(t *testing.T) (*v1alpha1.Task, *linkv1.Attempt) {
	t.Helper()
	a, task, attempt := d.given(t)
	d.Left(a)
	d.Govern(inNS("s"), Rules{Halt: &Wait{}}) // it is not assigned again
	time.Sleep(d.lapse())
	d.steps()
	d.settles(task)
	return task, attempt
}

func TestLateResultOfALostAttempt(t *testing.T) {
	for outcome, counts := range map[linkv1.Outcome]bool{
		linkv1.Outcome_OUTCOME_SUCCEEDED: true, linkv1.Outcome_OUTCOME_FAILED: false, linkv1.Outcome_OUTCOME_HANDED_BACK: false,
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			task, attempt := d.lost(t)
			d.says(t, leased, "p", &linkv1.Hello{Unacknowledged: []*linkv1.Result{{Attempt: attempt, Outcome: outcome}}})
			if view := d.Observe(task, Brief{}); (view.Ended != nil) != counts {
				t.Errorf("%s after the attempt was lost: %+v", outcome, view.Ended)
			}
		})
	}
}

// A former leader assigned the task and wrote nothing: its agent has finished it, while this leader's attempt runs on another one.
func TestResultOfALaterEpochStopsTheAttemptThatRuns(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		_, task, attempt := d.given(t)
		b := d.joins(t, "b", "s", 1)
		d.sent = nil
		d.sequence += 5 // issued by an earlier leader of the same term
		later := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: attempt.GetAttempt() + 3, Epoch: attempt.GetEpoch() + 5}
		d.concludes(b, later, linkv1.Outcome_OUTCOME_FAILED)
		if view := d.Observe(task, Brief{}); view.Ended == nil || view.Ended.Epoch != later.GetEpoch() {
			t.Fatalf("got %+v", view)
		}
		if len(d.sent) != 1 || d.sent[0].GetCancel().GetAttempt().GetEpoch() != attempt.GetEpoch() {
			t.Errorf("sent %v, want the end of the attempt that runs", d.sent)
		}
		d.settles(task)
		time.Sleep(2 * declinedPause)
		d.heard[leased], d.heard[b] = time.Now(), time.Now()
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Attempt != later.GetAttempt()+1 {
			t.Errorf("the next attempt is %+v", view.Held)
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
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			d.joins(t, "a", "s", 1)
			task := d.task("t", "s")
			task.Spec.Timeouts = c.limits
			d.stores(task)
			d.Observe(task, Brief{})
			d.steps()
			assign := d.sent[0].GetAssign()
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
	atDesk(t, nil, func(t *testing.T, d *desk) {
		swarm := v1alpha1.Swarm{}
		swarm.Status.Epoch = 7<<32 | 3
		d.Open(Census{Swarms: []v1alpha1.Swarm{swarm}})
		if d.term != 8 {
			t.Errorf("the term is %d", d.term)
		}
	})
}

func TestAgentShowsWhatItRunsByName(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 3)
		for _, name := range []string{"y", "x", "z"} {
			d.task(name, "s")
		}
		d.steps()
		var names []string
		for _, running := range d.Agent(inNS("a")).Workload.Running {
			names = append(names, running.Task)
		}
		if !slices.Equal(names, []string{"x", "y", "z"}) {
			t.Errorf("got %q", names)
		}
	})
}

func TestReportedIsOnlyWhatAgentsName(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.joins(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "unknown", TaskUid: "u", Attempt: 1, Epoch: 1})
		if !d.Reported(inNS("unknown")) || d.Reported(inNS("another")) {
			t.Error("want the task that the agent names, and no other")
		}
	})
}

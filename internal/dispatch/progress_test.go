package dispatch

import (
	"testing"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// reports sends progress of an attempt and returns what the agent then shows of it.
func (d *desk) reports(who link.Agent, attempt *linkv1.Attempt, percent int32, message string) int32 {
	d.Received(who, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: attempt, Percent: percent,
		Message: message}}})
	return d.Agent(d.agents[who].object()).Workload.Running[0].Progress
}

func TestProgressNeverGoesBackWithinAnAttempt(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		who := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		given := d.assigned()[0]
		for _, c := range []struct{ reported, want int32 }{{40, 40}, {20, 40}, {-5, 40}, {60, 60}, {0, 60}, {100, 99}, {250, 99}, {70, 99}} {
			if got := d.reports(who, given, c.reported, "working"); got != c.want {
				t.Errorf("after a report of %d %%: %d %%, want %d %%", c.reported, got, c.want)
			}
		}
		d.reports(who, given, 1, "almost there")
		if view := d.Observe(task, Brief{}); view.Held.Progress != 99 || view.Held.Message != "almost there" {
			t.Errorf("the message of a late percentage is lost: %+v", view.Held)
		}
	})
}

// A later attempt starts at zero: the progress of an earlier one does not count.
func TestProgressOfTheNextAttemptStartsAnew(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		who := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		first := d.assigned()[0]
		d.reports(who, first, 80, "")
		d.concludes(who, first, linkv1.Outcome_OUTCOME_HANDED_BACK)
		d.settles(task)
		d.credit(who, 2)
		d.steps()
		d.settles(task)
		second := d.assigned()[0]
		if second.GetEpoch() <= first.GetEpoch() {
			t.Fatalf("epoch %d after %d", second.GetEpoch(), first.GetEpoch())
		}
		if got := d.reports(who, second, 10, ""); got != 10 {
			t.Errorf("the second attempt shows %d %%, want 10 %%", got)
		}
	})
}

// A task waits in the line of its namespace when an agent names an attempt of it, which a former leader assigned and never wrote.
func TestProgressDoesNotCancelAnAttemptWhoseTaskWaitsInLine(t *testing.T) {
	withBudget(t, Budget{Tasks: 1}, func(t *testing.T, d *desk) {
		d.Observe(d.aged("first", 0), Brief{})
		second := d.aged("second", 1)
		if view := d.Observe(second, Brief{}); view.Wait == nil || view.Wait.Reason != v1alpha1.ReasonNamespaceLimitReached {
			t.Fatalf("the second task does not wait in line: %+v", view)
		}
		d.term = 2
		attempt := &linkv1.Attempt{Namespace: "ns", Task: "second", TaskUid: "uid-second", Attempt: 1, Epoch: 1<<32 | 1}
		who := d.joins(t, "a", "s", 1, attempt)
		d.progresses(who, attempt)
		if stopped := d.cancelled(); len(stopped) != 0 || d.stales(t, staleProgress) != 0 {
			t.Fatalf("cancelled %v", stopped)
		}
		if view := d.Observe(second, Brief{}); view.Held == nil || view.Held.Epoch != attempt.GetEpoch() {
			t.Fatalf("the attempt is not resumed with its task: %+v", view)
		}
		if got := d.reports(who, attempt, 60, ""); got != 60 {
			t.Errorf("after it was resumed it shows %d %%, want 60 %%", got)
		}
	})
}

// What the agent has not named as running, or has named as ended, is not resumed.
func TestProgressOfAnAttemptThatIsNotToBeResumedIsCancelled(t *testing.T) {
	attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 1}
	for name, before := range map[string]func(*testing.T, *desk, link.Agent){
		"never named": func(*testing.T, *desk, link.Agent) {},
		"ended":       func(_ *testing.T, d *desk, who link.Agent) { d.concludes(who, attempt, linkv1.Outcome_OUTCOME_FAILED) },
		"of the former process": func(t *testing.T, d *desk, who link.Agent) {
			d.Left(who)
			d.says(t, who, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
			d.Left(who)
			d.Forget(inNS("t"))
			d.says(t, who, "q", &linkv1.Hello{})
		},
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.term = 2
			who := d.joins(t, "a", "s", 1)
			before(t, d, who)
			d.sent = nil
			d.progresses(who, attempt)
			if stopped := d.cancelled(); len(stopped) != 1 || d.stales(t, staleProgress) != 1 {
				t.Errorf("%s: cancelled %v", name, stopped)
			}
		})
	}
}

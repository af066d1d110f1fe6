package dispatch

import (
	"testing"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
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

// A later attempt starts anew: what an earlier one reached is not its progress.
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

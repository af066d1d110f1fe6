package dispatch

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// cancelled returns the epochs of stops sent to agents since the last call.
func (d *desk) cancelled() []int64 {
	var list []int64
	for _, message := range d.sent {
		if cancel := message.GetCancel(); cancel != nil {
			list = append(list, cancel.GetAttempt().GetEpoch())
		}
	}
	d.sent = nil
	return list
}

func TestObjectOlderThanOneSeenIsStale(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		old := d.task("t", "s")
		newer := old.DeepCopy()
		d.stores(newer)
		d.Settle(newer, nil)
		if !d.Observe(old, Brief{}).Stale || d.Observe(newer, Brief{}).Stale {
			t.Error("the version that was written is known")
		}
	})
}

func TestAssignmentWrittenForOnePodIsNotSentToItsSuccessor(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 2)
		task := d.task("t", "s")
		d.steps()
		d.concludes(a, d.assigned()[0], linkv1.Outcome_OUTCOME_HANDED_BACK)
		d.settles(task)
		d.steps() // decided, to be written
		d.Left(a)
		if err := d.Joined(a, "another pod", &linkv1.Hello{Swarm: "s", Slots: 2}); err != nil {
			t.Fatal(err)
		}
		d.records(a, "another pod")
		d.credit(a, 2)
		d.settles(task)
		if given := d.assigned(); len(given) != 0 {
			t.Fatalf("sent: %v", given)
		}
		time.Sleep(declinedPause)
		d.steps()
		d.settles(task)
		if given := d.assigned(); len(given) != 1 || given[0].GetEpoch() != 1<<32|3 {
			t.Errorf("want another assignment: %v", given)
		}
	})
}

func TestAttemptOfAnEarlierTaskOfTheNameIsStopped(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		earlier := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "earlier", Attempt: 1, Epoch: 5}
		a := d.joins(t, "a", "s", 1, earlier)
		d.task("t", "s") // observed only now
		if got := d.cancelled(); len(got) != 1 || got[0] != 5 {
			t.Errorf("cancelled: %v", got)
		}
		d.concludes(a, earlier, linkv1.Outcome_OUTCOME_CANCELLED)
		if len(d.sent) != 1 || d.sent[0].GetAcknowledge().GetAttempt().GetEpoch() != 5 {
			t.Errorf("sent: %v", d.sent)
		}
	})
}

// Its task is finished, so the board does not know it: a report about it, or about an earlier task of its name, is acknowledged.
func TestResultsOfFinishedTasksAreAcknowledged(t *testing.T) {
	for _, uid := range []string{"uid-t", "earlier"} {
		t.Run(uid, func(t *testing.T) {
			atDesk(t, nil, func(t *testing.T, d *desk) {
				d.rule("s")
				a, task := d.joins(t, "a", "s", 1), d.task("t", "s")
				task.Status.Phase = v1alpha1.TaskCompleted
				d.stores(task)
				d.Settle(task, nil)
				d.sent = nil
				d.concludes(a, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: uid, Attempt: 1, Epoch: 5}, linkv1.Outcome_OUTCOME_CANCELLED)
				d.Observe(task, Brief{})
				if len(d.sent) != 1 || d.sent[0].GetAcknowledge() == nil {
					t.Errorf("sent: %v", d.sent)
				}
			})
		})
	}
}

func TestHolderOfAnOlderEpochIsStopped(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		older := d.assigned()[0]
		newer := proto.Clone(older).(*linkv1.Attempt)
		newer.Epoch += 10
		d.joins(t, "b", "s", 1, newer)
		if got := d.cancelled(); len(got) != 1 || got[0] != older.GetEpoch() {
			t.Errorf("cancelled: %v", got)
		}
		if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Epoch != newer.GetEpoch() || view.Held.Agent != "b" {
			t.Errorf("%+v", view)
		}
		d.concludes(a, older, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if view := d.Observe(task, Brief{}); view.Ended != nil || d.stales(t, "result") != 1 {
			t.Errorf("%+v", view)
		}
	})
}

package dispatch

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// takeCancelledEpochs returns the epochs of stops sent to agents since the last call.
func (f *fixture) takeCancelledEpochs() []int64 {
	var list []int64
	for _, message := range f.sent {
		if cancel := message.GetCancel(); cancel != nil {
			list = append(list, cancel.GetAttempt().GetEpoch())
		}
	}
	f.sent = nil
	return list
}

func TestObjectOlderThanOneSeenIsStale(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		old := f.createTask("t", "s")
		newer := old.DeepCopy()
		f.bumpVersion(newer)
		f.MarkStored(newer, nil)
		if !f.Observe(old, TaskInput{}).Stale || f.Observe(newer, TaskInput{}).Stale {
			t.Error("the version that was written is known")
		}
	})
}

func TestAssignmentWrittenForOnePodIsNotSentToItsSuccessor(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task := f.decideSecondAttempt(t)
		f.Left(a)
		if err := f.Joined(a, "another pod", &linkv1.Hello{Swarm: "s", Slots: 2}); err != nil {
			t.Fatal(err)
		}
		f.recordPod(a, "another pod")
		f.grantCredit(a, 2)
		f.storeStatus(task)
		if attempts := f.takeAssignments(); len(attempts) != 0 {
			t.Fatalf("sent: %v", attempts)
		}
		time.Sleep(declinedPause)
		f.runStep()
		f.storeStatus(task)
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetEpoch() != 1<<32|3 {
			t.Errorf("want another assignment: %v", attempts)
		}
	})
}

func TestAttemptOfAnEarlierTaskOfTheNameIsStopped(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		earlier := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "earlier", Attempt: 1, Epoch: 5}
		a := f.joinAgent(t, "a", "s", 1, earlier)
		f.createTask("t", "s") // observed only now
		if got := f.takeCancelledEpochs(); len(got) != 1 || got[0] != 5 {
			t.Errorf("cancelled: %v", got)
		}
		f.sendResult(a, earlier, linkv1.Outcome_OUTCOME_CANCELLED)
		if len(f.sent) != 1 || f.sent[0].GetAcknowledge().GetAttempt().GetEpoch() != 5 {
			t.Errorf("sent: %v", f.sent)
		}
	})
}

// Its task is finished, so the dispatcher does not know it: a report about it, or about an earlier task of its name, is acknowledged.
func TestResultsOfFinishedTasksAreAcknowledged(t *testing.T) {
	for _, uid := range []string{"uid-t", "earlier"} {
		t.Run(uid, func(t *testing.T) {
			withFixture(t, nil, func(t *testing.T, f *fixture) {
				f.setSwarms("s")
				a, task := f.joinAgent(t, "a", "s", 1), f.createTask("t", "s")
				task.Status.Phase = v1alpha1.TaskCompleted
				f.bumpVersion(task)
				f.MarkStored(task, nil)
				f.sent = nil
				f.sendResult(a, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: uid, Attempt: 1, Epoch: 5}, linkv1.Outcome_OUTCOME_CANCELLED)
				f.Observe(task, TaskInput{})
				if len(f.sent) != 1 || f.sent[0].GetAcknowledge() == nil {
					t.Errorf("sent: %v", f.sent)
				}
			})
		})
	}
}

func TestHolderOfAnOlderEpochIsStopped(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task, older := f.assignTask(t)
		newer := proto.Clone(older).(*linkv1.Attempt)
		newer.Epoch += 10
		f.joinAgent(t, "b", "s", 1, newer)
		if got := f.takeCancelledEpochs(); len(got) != 1 || got[0] != older.GetEpoch() {
			t.Errorf("cancelled: %v", got)
		}
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Epoch != newer.GetEpoch() ||
			view.Assignment.Agent != "b" {
			t.Errorf("%+v", view)
		}
		f.sendResult(a, older, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if view := f.Observe(task, TaskInput{}); view.End != nil || f.staleCount(t, "result") != 1 {
			t.Errorf("%+v", view)
		}
	})
}

package dispatch

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func TestTermIsRaisedAboveOneThatIsStored(t *testing.T) {
	for stored, want := range map[int64]int64{0: 1, 1: 2, 5: 6} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			task := v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
			task.Status.Epoch = stored<<32 | 9
			if stored == 0 {
				task.Status.Epoch = 0
			}
			f.Open(Snapshot{Tasks: []v1alpha1.Task{task}})
			if f.term != want {
				t.Errorf("term %d is stored, and the term is %d", stored, f.term)
			}
		})
	}
}

func TestSnapshotAdmitsUnfinishedTasks(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		tasks := []v1alpha1.Task{{}, {}}
		tasks[0].Namespace, tasks[0].Name, tasks[0].Status.Phase = "ns", "running", v1alpha1.TaskRunning
		tasks[1].Namespace, tasks[1].Name, tasks[1].Status.Phase = "ns", "finished", v1alpha1.TaskCompleted
		f.Open(Snapshot{Tasks: tasks})
		if !slices.Contains(f.triggers, triggered{"running", 0}) || slices.Contains(f.triggers, triggered{"finished", 0}) {
			t.Errorf("looks at %v", f.triggers)
		}
	})
}

// If an agent's status names the pod that was linked last, that pod is awaited, whatever pod the agent has now.
func TestPodThatWasLinkedLastIsAwaited(t *testing.T) {
	for _, c := range []struct {
		why, linkedPod string
		condition      metav1.ConditionStatus
		awaited        string
	}{
		{"named, and another pod is there now", "former", metav1.ConditionTrue, "former"},
		{"an earlier version, and linked", "", metav1.ConditionTrue, "pod-a"},
		{"never linked", "", metav1.ConditionFalse, ""},
	} {
		agent := v1alpha1.Agent{}
		agent.Status.LinkedPodUID, agent.Status.PodUID = c.linkedPod, "pod-a"
		agent.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionLinked, Status: c.condition}}
		if got := lastLinked(&agent).PodUID; got != c.awaited {
			t.Errorf("%s: awaits %q, want %q", c.why, got, c.awaited)
		}
	}
}

func TestHaltedSwarmSaysWhyItsTasksWait(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		halt := Wait{Reason: v1alpha1.ReasonPaused, Message: "paused"}
		f.SetSwarm(namespacedName("s"), SwarmRules{Halt: &halt})
		f.joinAgent(t, "a", "s", 1)
		task := f.createTask("t", "s")
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.Wait == nil || *view.Wait != halt || len(f.takeAssignments()) != 0 {
			t.Errorf("got %+v", view)
		}
	})
}

func TestFirstAssignmentIsWrittenLater(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 1)
		f.createTask("t", "s")
		f.triggers = nil
		f.runStep()
		if delays := f.takeTriggerDelays("t"); !slices.Contains(delays, firstWriteDelay) || slices.Contains(delays, 0) {
			t.Errorf("written after %v", delays)
		}
	})
}

func TestRepeatedResultIsNotStale(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, _, attempt := f.runningTask(t)
		f.sendResult(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		f.sent = nil
		f.sendResult(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if f.staleCount(t, staleResult) != 0 || len(f.sent) != 0 {
			t.Errorf("%v counted, sent %v", f.staleCount(t, staleResult), f.sent)
		}
		former := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: attempt.GetEpoch() - 1}
		f.sendResult(a, former, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if f.staleCount(t, staleResult) != 1 || len(f.sent) != 1 || f.sent[0].GetAcknowledge() == nil {
			t.Errorf("%v counted, sent %v", f.staleCount(t, staleResult), f.sent)
		}
	})
}

// Results of unknown tasks are not kept, and an ended process does not send them again.
func TestWhatAProcessReportsOfUnknownTasksEndsWithIt(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		attempt := func(task string) *linkv1.Attempt {
			return &linkv1.Attempt{Namespace: "ns", Task: task, TaskUid: "u", Attempt: 1, Epoch: 1}
		}
		f.triggers = nil
		f.sendHello(t, leasedAgent, "p", &linkv1.Hello{
			Running: []*linkv1.Attempt{attempt("running")}, Unacknowledged: []*linkv1.Result{{Attempt: attempt("finished")}},
		})
		if !slices.Contains(f.triggers, triggered{"running", 0}) || !slices.Contains(f.triggers, triggered{"finished", 0}) {
			t.Errorf("looks at %v", f.triggers)
		}
		f.Received(leasedAgent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Goodbye{Goodbye: &linkv1.Goodbye{}}})
		if f.HasOrphans(namespacedName("running")) || f.HasOrphans(namespacedName("finished")) {
			t.Error("what the process reported is still remembered")
		}
	})
}

// Some of what an agent runs may be unknown here.
func TestLongLeaseWaitsForTasksThatAreNotKnown(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.SetAgent(agentWithLease(600), 600*time.Second)
		unknown := &linkv1.Attempt{Namespace: "ns", Task: "unknown", TaskUid: "u", Attempt: 1, Epoch: 1}
		if granted := f.Lease(leasedAgent, &linkv1.Hello{Running: []*linkv1.Attempt{unknown}}); granted != maxUnstoredLease {
			t.Errorf("told %s", granted)
		}
		if granted := f.Lease(leasedAgent, &linkv1.Hello{}); granted != 600*time.Second {
			t.Errorf("told %s", granted)
		}
	})
}

func TestHoldersAreShownInOrder(t *testing.T) {
	withFixture(t, []corev1.Pod{}, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 1)
		for _, process := range []string{"r", "p", "q"} {
			f.Left(leasedAgent)
			f.sendHello(t, leasedAgent, process, &linkv1.Hello{Slots: 9})
			task := f.createTask("task-of-"+process, "s")
			f.runStep()
			f.storeStatus(task)
		}
		f.Left(leasedAgent)
		var ids []string
		for _, holder := range f.Agent(namespacedName("a")).Holders {
			ids = append(ids, holder.ID)
		}
		if !slices.Equal(ids, []string{"p", "q", "r"}) {
			t.Errorf("got %q", ids)
		}
	})
}

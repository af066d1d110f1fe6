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
		atDesk(t, nil, func(t *testing.T, d *desk) {
			task := v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
			task.Status.Epoch = stored<<32 | 9
			if stored == 0 {
				task.Status.Epoch = 0
			}
			d.Open(Census{Tasks: []v1alpha1.Task{task}})
			if d.term != want {
				t.Errorf("term %d is stored, and the term is %d", stored, d.term)
			}
		})
	}
}

func TestCensusTakesUpTasksThatAreNotFinished(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		tasks := []v1alpha1.Task{{}, {}}
		tasks[0].Namespace, tasks[0].Name, tasks[0].Status.Phase = "ns", "running", v1alpha1.TaskRunning
		tasks[1].Namespace, tasks[1].Name, tasks[1].Status.Phase = "ns", "finished", v1alpha1.TaskCompleted
		d.Open(Census{Tasks: tasks})
		if !slices.Contains(d.signals, signal{"running", 0}) || slices.Contains(d.signals, signal{"finished", 0}) {
			t.Errorf("looks at %v", d.signals)
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
	atDesk(t, nil, func(t *testing.T, d *desk) {
		halt := Wait{Reason: v1alpha1.ReasonPaused, Message: "paused"}
		d.Govern(inNS("s"), Rules{Halt: &halt})
		d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		if view := d.Observe(task, Brief{}); view.Wait == nil || *view.Wait != halt || len(d.assigned()) != 0 {
			t.Errorf("got %+v", view)
		}
	})
}

func TestFirstAssignmentIsWrittenLater(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		d.task("t", "s")
		d.signals = nil
		d.steps()
		if delays := d.signalled("t"); !slices.Contains(delays, writtenAfter) || slices.Contains(delays, 0) {
			t.Errorf("written after %v", delays)
		}
	})
}

func TestResultThatIsSaidAgainIsNotStale(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, _, attempt := d.given(t)
		d.concludes(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		d.sent = nil
		d.concludes(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if d.stales(t, staleResult) != 0 || len(d.sent) != 0 {
			t.Errorf("%v counted, sent %v", d.stales(t, staleResult), d.sent)
		}
		former := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: attempt.GetEpoch() - 1}
		d.concludes(a, former, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if d.stales(t, staleResult) != 1 || len(d.sent) != 1 || d.sent[0].GetAcknowledge() == nil {
			t.Errorf("%v counted, sent %v", d.stales(t, staleResult), d.sent)
		}
	})
}

// Results of unknown tasks are not kept, and an ended process does not send them again.
func TestWhatAProcessReportsOfUnknownTasksEndsWithIt(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		attempt := func(task string) *linkv1.Attempt {
			return &linkv1.Attempt{Namespace: "ns", Task: task, TaskUid: "u", Attempt: 1, Epoch: 1}
		}
		d.signals = nil
		d.says(t, leased, "p", &linkv1.Hello{
			Running: []*linkv1.Attempt{attempt("running")}, Unacknowledged: []*linkv1.Result{{Attempt: attempt("finished")}},
		})
		if !slices.Contains(d.signals, signal{"running", 0}) || !slices.Contains(d.signals, signal{"finished", 0}) {
			t.Errorf("looks at %v", d.signals)
		}
		d.Received(leased, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Goodbye{Goodbye: &linkv1.Goodbye{}}})
		if d.Reported(inNS("running")) || d.Reported(inNS("finished")) {
			t.Error("what the process reported is still remembered")
		}
	})
}

// Some of what an agent runs may be unknown here.
func TestLongLeaseWaitsForTasksThatAreNotKnown(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.Enrol(agentWith(600), 600*time.Second)
		unknown := &linkv1.Attempt{Namespace: "ns", Task: "unknown", TaskUid: "u", Attempt: 1, Epoch: 1}
		if told := d.Lease(leased, &linkv1.Hello{Running: []*linkv1.Attempt{unknown}}); told != storeFirst {
			t.Errorf("told %s", told)
		}
		if told := d.Lease(leased, &linkv1.Hello{}); told != 600*time.Second {
			t.Errorf("told %s", told)
		}
	})
}

func TestHoldersAreShownInOrder(t *testing.T) {
	atDesk(t, []corev1.Pod{}, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		for _, process := range []string{"r", "p", "q"} {
			d.Left(leased)
			d.says(t, leased, process, &linkv1.Hello{Slots: 9})
			task := d.task("task-of-"+process, "s")
			d.steps()
			d.settles(task)
		}
		d.Left(leased)
		var ids []string
		for _, holder := range d.Agent(inNS("a")).Holders {
			ids = append(ids, holder.ID)
		}
		if !slices.Equal(ids, []string{"p", "q", "r"}) {
			t.Errorf("got %q", ids)
		}
	})
}

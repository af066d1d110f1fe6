package dispatch

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

func (d *desk) completes(who link.Agent) {
	d.Received(who, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Complete{Complete: &linkv1.Complete{}}})
}

func succeeded(attempt *linkv1.Attempt) *linkv1.Result {
	return &linkv1.Result{Attempt: attempt, Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED}
}

// Hello has no room for all results. Those that follow it must not be given up before.
func TestNothingIsConcludedFromAPartialHello(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 3)
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{Slots: 3})
		var tasks []*v1alpha1.Task
		for n := range 3 {
			tasks = append(tasks, d.task(fmt.Sprintf("t%d", n), "s"))
		}
		d.steps()
		given := map[string]*linkv1.Attempt{}
		for _, attempt := range d.assigned() {
			given[attempt.GetTask()] = attempt
		}
		for _, task := range tasks {
			d.settles(task)
		}
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{Slots: 3, Partial: true, Unacknowledged: []*linkv1.Result{succeeded(given["t0"])}})
		d.steps()
		if view := d.Observe(tasks[1], Brief{}); view.Held == nil {
			t.Fatalf("given up before everything was named: %+v", view.Ended)
		}
		d.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: succeeded(given["t1"])}})
		d.completes(a)
		for n, want := range []linkv1.Outcome{linkv1.Outcome_OUTCOME_SUCCEEDED, linkv1.Outcome_OUTCOME_SUCCEEDED, linkv1.Outcome_OUTCOME_DECLINED} {
			if view := d.Observe(tasks[n], Brief{}); view.Ended == nil || view.Ended.Outcome != want {
				t.Errorf("task %d: %+v, want %v", n, view.Ended, want)
			}
		}
	})
}

// An agent that grants credit before Complete does not name in its Hello what it receives then. That would count as not
// delivered, and be assigned to another agent as well.
func TestAgentGetsNothingBeforeItHasNamedEverything(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{Partial: true})
		task := d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Fatalf("given out before everything was named: %v", given)
		}
		d.completes(a)
		d.steps()
		if given := d.assigned(); len(given) != 1 {
			t.Errorf("want one assignment: %v", given)
		}
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Errorf("%+v", view)
		}
	})
}

// The assignment was made on the previous stream, and is stored while the agent has not yet named everything on this one.
func TestStoredAssignmentIsNotSentBeforeTheAgentHasNamedEverything(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{})
		task := d.task("t", "s")
		d.Observe(task, Brief{Referred: true}) // it is stored before it is sent
		d.steps()
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{Partial: true})
		d.settles(task)
		if given := d.assigned(); len(given) > 0 {
			t.Fatalf("sent before everything was named: %v", given)
		}
		d.completes(a)
		if view := d.Observe(task, Brief{}); view.Held != nil || view.Ended != nil {
			t.Errorf("want it to wait for the next assignment: %+v", view)
		}
	})
}

// Its results are those of attempts that the previous leader has never written: without them the tasks look new.
func TestNewLeaderWaitsForTheRestOfAPartialHello(t *testing.T) {
	atDesk(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, d *desk) {
		d.rule("s")
		d.term = 2
		task, attempt := d.task("t", "s"), &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 1}
		d.joins(t, "b", "s", 1)
		a := link.Agent{Namespace: "ns", Name: "a"}
		d.says(t, a, "p", &linkv1.Hello{Partial: true})
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Fatalf("given out before everything was named: %v", given)
		}
		d.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: succeeded(attempt)}})
		d.completes(a)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil || len(d.assigned()) > 0 {
			t.Errorf("%+v", view)
		}
	})
}

// The pod was force-deleted, and its successor already exists. The first may still run what was never written.
func TestSuccessorDoesNotSpeakForThePodThatWasLinked(t *testing.T) {
	agent := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	agent.Spec.SwarmRef.Name, agent.Status.PodUID, agent.Status.LinkedPodUID = "s", "pod-a", "earlier"
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.ready = make(chan struct{})
		d.Open(Census{Pods: []corev1.Pod{pod("a", "s")}, Agents: []v1alpha1.Agent{agent}})
		d.rule("s")
		d.joins(t, "a", "s", 1)
		d.task("t", "s")
		time.Sleep(d.lapse() - time.Millisecond)
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Fatalf("given out while the first pod may work: %v", given)
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if given := d.assigned(); len(given) != 1 {
			t.Errorf("want one assignment: %v", given)
		}
	})
}

func TestPodIsAwaitedUnlessTheKubeletHasSeenItsEnd(t *testing.T) {
	over := func(state corev1.ContainerState) corev1.Pod {
		made := pod("a", "s")
		made.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: state}}}
		return made
	}
	for name, c := range map[string]struct {
		pod     corev1.Pod
		awaited bool
	}{
		"failed, written for a lost node": {over(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), true},
		"failed, seen":                    {over(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c", Reason: "Error"}}), false},
	} {
		atDesk(t, []corev1.Pod{c.pod}, func(t *testing.T, d *desk) {
			d.rule("s")
			d.joins(t, "b", "s", 1)
			d.task("t", "s")
			d.steps()
			if given := d.assigned(); (len(given) == 0) != c.awaited {
				t.Errorf("%s: given out: %v", name, given)
			}
		})
	}
}

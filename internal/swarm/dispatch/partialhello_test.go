package dispatch

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

func (f *fixture) sendComplete(agent link.Agent) {
	f.Received(agent, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Complete{Complete: &linkv1.Complete{}}})
}

func successResult(attempt *linkv1.Attempt) *linkv1.Result {
	return &linkv1.Result{Attempt: attempt, Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED}
}

// Hello has no room for all results. Those that follow it must not be given up before.
func TestNothingIsConcludedFromAPartialHello(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 3)
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{Slots: 3})
		var tasks []*v1alpha1.Task
		for n := range 3 {
			tasks = append(tasks, f.createTask(fmt.Sprintf("t%d", n), "s"))
		}
		f.runStep()
		attempts := map[string]*linkv1.Attempt{}
		for _, attempt := range f.takeAssignments() {
			attempts[attempt.GetTask()] = attempt
		}
		for _, task := range tasks {
			f.storeStatus(task)
		}
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{Slots: 3, Partial: true, Unacknowledged: []*linkv1.Result{successResult(attempts["t0"])}})
		f.runStep()
		if view := f.Observe(tasks[1], TaskInput{}); view.Assignment == nil {
			t.Fatalf("given up before everything was named: %+v", view.End)
		}
		f.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: successResult(attempts["t1"])}})
		f.sendComplete(a)
		for n, want := range []linkv1.Outcome{linkv1.Outcome_OUTCOME_SUCCEEDED, linkv1.Outcome_OUTCOME_SUCCEEDED,
			linkv1.Outcome_OUTCOME_DECLINED} {
			if view := f.Observe(tasks[n], TaskInput{}); view.End == nil || view.End.Outcome != want {
				t.Errorf("task %d: %+v, want %v", n, view.End, want)
			}
		}
	})
}

// An agent that grants credit before Complete does not name in its Hello what it receives then. That would count as not
// delivered, and be assigned to another agent as well.
func TestAgentGetsNothingBeforeItHasNamedEverything(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{Partial: true})
		task := f.createTask("t", "s")
		f.requireNoneAssigned(t) // the agent has not named everything
		f.sendComplete(a)
		f.requireAssigned(t)
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
			t.Errorf("%+v", view)
		}
	})
}

// The assignment was made on the previous stream, and is stored while the agent has not yet named everything on this one.
func TestStoredAssignmentIsNotSentBeforeTheAgentHasNamedEverything(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{})
		task := f.createTask("t", "s")
		f.Observe(task, TaskInput{PayloadByReference: true}) // it is stored before it is sent
		f.runStep()
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{Partial: true})
		f.storeStatus(task)
		if attempts := f.takeAssignments(); len(attempts) > 0 {
			t.Fatalf("sent before everything was named: %v", attempts)
		}
		f.sendComplete(a)
		if view := f.Observe(task, TaskInput{}); view.Assignment != nil || view.End != nil {
			t.Errorf("want it to wait for the next assignment: %+v", view)
		}
	})
}

// Its results are those of attempts that the previous leader has never written: without them the tasks look new.
func TestNewLeaderWaitsForTheRestOfAPartialHello(t *testing.T) {
	withFixture(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.term = 2
		task, attempt := f.createTask("t", "s"), &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 1}
		f.joinAgent(t, "b", "s", 1)
		a := link.Agent{Namespace: "ns", Name: "a"}
		f.sendHello(t, a, "p", &linkv1.Hello{Partial: true})
		f.requireNoneAssigned(t) // the agent has not named everything
		f.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: successResult(attempt)}})
		f.sendComplete(a)
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.End == nil || len(f.takeAssignments()) > 0 {
			t.Errorf("%+v", view)
		}
	})
}

// The pod was force-deleted, and its successor already exists. The first may still run what was never written.
func TestSuccessorDoesNotReportForTheLinkedPod(t *testing.T) {
	agent := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	agent.Spec.SwarmRef.Name, agent.Status.PodUID, agent.Status.LinkedPodUID = "s", "pod-a", "earlier"
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.ready = make(chan struct{})
		f.Open(Snapshot{Pods: []corev1.Pod{pod("a", "s")}, Agents: []v1alpha1.Agent{agent}})
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 1)
		f.createTask("t", "s")
		f.requireAssignedAfter(t, f.leaseTimeout())
	})
}

func TestPodIsAwaitedUnlessTheKubeletHasSeenItsEnd(t *testing.T) {
	finishedPod := func(state corev1.ContainerState) corev1.Pod {
		pod := pod("a", "s")
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: state}}}
		return pod
	}
	for name, c := range map[string]struct {
		pod     corev1.Pod
		awaited bool
	}{
		"failed, written for a lost node": {finishedPod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), true},
		"failed, seen": {finishedPod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c",
			Reason: "Error"}}), false},
	} {
		withFixture(t, []corev1.Pod{c.pod}, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			f.joinAgent(t, "b", "s", 1)
			f.createTask("t", "s")
			f.runStep()
			if attempts := f.takeAssignments(); (len(attempts) == 0) != c.awaited {
				t.Errorf("%s: given out: %v", name, attempts)
			}
		})
	}
}

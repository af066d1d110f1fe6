package dispatch

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var formerProcess = Process{PodUID: "pod-a", ID: "p"}

// assignedTaskOf returns a task that a former leader has assigned to a process of agent a, under a lease of an hour.
func (f *fixture) assignedTaskOf(process Process) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", "t", "uid-t", "s"
	task.Status.Epoch, task.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{
		Name: "a", Attempt: 1, Epoch: 1, PodUID: process.PodUID, Process: process.ID, LeaseSeconds: 3600,
	}}
	f.bumpVersion(task)
	f.Observe(task, TaskInput{})
	return task
}

// An agent dies around a change of leaders: its container status proves it to the next leader as well.
func TestProofOfDeathSurvivesAChangeOfLeaders(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.assignedTaskOf(formerProcess)
		if delays := f.takeTriggerDelays("a"); len(delays) == 0 || delays[0] != 0 {
			t.Errorf("the pod is not looked at: %v", delays)
		}
		if holders := f.Agent(namespacedName("a")).Holders; len(holders) != 1 || holders[0] != formerProcess {
			t.Fatalf("holders %v", holders)
		}
		f.MarkProcessEnded(namespacedName("a"), Process{PodUID: "pod-a", ID: "q"})
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Process != formerProcess {
			t.Fatalf("given up because another process has ended: %+v", view)
		}
		f.MarkProcessEnded(namespacedName("a"), formerProcess)
		if view := f.Observe(task, TaskInput{}); view.End == nil || !view.End.Lost {
			t.Errorf("not given up: %+v", view)
		}
	})
}

func TestOnlyTheAssignedProcessCanResumeAnAttempt(t *testing.T) {
	attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}
	for process, resumes := range map[string]bool{"p": true, "q": false} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			task := f.assignedTaskOf(formerProcess)
			a := f.joinAgent(t, "a", "s", 1)
			f.Left(a)
			f.sendHello(t, a, process, &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
			if got := f.staleCount(t, staleRunning) == 0; got != resumes {
				t.Errorf("process %q resumes: %t, want %t", process, got, resumes)
			}
			if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Process != formerProcess {
				t.Errorf("process %q: %+v", process, view)
			}
		})
	}
}

// A former leader stored an assignment, and ended before it was sent. The process itself reports that; another one does not know.
func TestStoredAssignmentThatWasNeverSentIsFreeWhenItsProcessSaysSo(t *testing.T) {
	for process, free := range map[string]bool{"p": true, "q": false} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			task := f.assignedTaskOf(formerProcess)
			a := f.joinAgent(t, "a", "s", 1)
			f.Left(a)
			f.sendHello(t, a, process, &linkv1.Hello{})
			if view := f.Observe(task, TaskInput{}); (view.End != nil) != free {
				t.Errorf("process %q: %+v", process, view)
			}
		})
	}
}

// For an agent whose object is gone, only the lease stored with the assignment shows how long it may work.
func TestStoredAssignmentKeepsTheLeaseOfAnAgentThatIsGone(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.assignedTaskOf(formerProcess)
		f.RemoveAgent(namespacedName("a"))
		f.requireLostAfter(t, task, leaseTimeout(time.Hour))
	})
}

// The gate of an agent does not become shorter when its object is deleted, before the term began or after.
func TestRecoveryKeepsTheLeaseOfADeletedAgent(t *testing.T) {
	long := agentObjectsOf([]corev1.Pod{pod("a", "s")})
	long[0].Status.LeaseSeconds = 60
	recreated := agentObjectsOf([]corev1.Pod{pod("a", "s")})
	recreated[0].Status = v1alpha1.AgentStatus{}
	for name, agents := range map[string][]v1alpha1.Agent{"deleted before": nil, "deleted after": long, "created again before": recreated} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			t.Log(name)
			f.Open(Snapshot{Agents: agents, Pods: []corev1.Pod{pod("a", "s")}})
			f.RemoveAgent(namespacedName("a"))
			f.setSwarms("s")
			b := f.joinAgent(t, "b", "s", 1)
			f.createTask("t", "s")
			f.requireAssignedAfter(t, leaseTimeout(time.Minute), b)
		})
	}
}

// Two processes of a pod are alive. A former leader has assigned the first one a task that is not stored, and the other one
// says Hello first.
func TestRecoveryWaitsForTheLinkedProcess(t *testing.T) {
	linked := agentWithLease(15)
	linked.Status.LinkedProcess = "p"
	ends := map[string]func(*testing.T, *fixture){
		"p is silent": func(*testing.T, *fixture) { time.Sleep(leaseTimeout(15 * time.Second)) },
		"p says Hello": func(t *testing.T, f *fixture) {
			f.Left(leasedAgent)
			f.sendHello(t, leasedAgent, "p", &linkv1.Hello{})
		},
		"p has ended": func(t *testing.T, f *fixture) {
			if holders := f.Agent(namespacedName("a")).Holders; !slices.Equal(holders, []Process{{"pod-a", "p"}, {"pod-a", "q"}}) {
				t.Errorf("proof is asked for of %v", holders)
			}
			f.MarkProcessEnded(namespacedName("a"), Process{"pod-a", "p"})
		},
	}
	for name, end := range ends {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.resetReady()
			f.Open(Snapshot{Agents: []v1alpha1.Agent{*linked}, Pods: []corev1.Pod{pod("a", "s"), pod("b", "s")}})
			f.setSwarms("s")
			b := f.joinAgent(t, "b", "s", 1)
			f.sendHello(t, leasedAgent, "q", &linkv1.Hello{})
			f.createTask("t", "s")
			f.runStep()
			if attempts := f.takeAssignments(); len(attempts) != 0 {
				t.Fatalf("%s: given out while p may run it", name)
			}
			if linked := f.Agent(namespacedName("a")).ProcessToRecord; linked != (Process{}) {
				t.Errorf("%s: %v takes the place of a process that the next leader should wait for", name, linked)
			}
			f.triggers = nil
			end(t, f)
			f.heardAt[b] = time.Now()
			f.runStep()
			if attempts := f.takeAssignments(); len(attempts) != 1 {
				t.Errorf("%s: not given out", name)
			}
			if linked := f.Agent(namespacedName("a")).ProcessToRecord; linked.PodUID != "pod-a" {
				t.Errorf("%s: no process is to be stored as linked", name)
			}
		})
	}
}

// An ended process is no longer awaited, and the linked one can be stored in its place.
func TestSuccessorOfAProcessThatHasEndedIsRecorded(t *testing.T) {
	linked := agentWithLease(15)
	linked.Status.LinkedProcess = "p"
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.resetReady()
		f.triggers = nil
		f.Open(Snapshot{Agents: []v1alpha1.Agent{*linked}, Pods: []corev1.Pod{pod("a", "s")}})
		if !slices.Contains(f.triggers, triggered{"a", 0}) {
			t.Error("nothing looks for the proof that p has ended")
		}
		f.setSwarms("s")
		f.sendHello(t, leasedAgent, "q", &linkv1.Hello{})
		f.triggers = nil
		f.MarkProcessEnded(namespacedName("a"), Process{"pod-a", "p"})
		if !slices.Contains(f.triggers, triggered{"a", 0}) {
			t.Error("the agent is not reconciled when its process can be recorded")
		}
	})
}

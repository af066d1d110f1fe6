package dispatch

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var former = Process{PodUID: "pod-a", ID: "p"}

// storedBy returns a task that a former leader has assigned to a process of agent a, under a lease of an hour.
func (d *desk) storedBy(process Process) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", "t", "uid-t", "s"
	task.Status.Epoch, task.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{
		Name: "a", Attempt: 1, Epoch: 1, PodUID: process.PodUID, Process: process.ID, LeaseSeconds: 3600,
	}}
	d.stores(task)
	d.Observe(task, Brief{})
	return task
}

// An agent dies around a change of leaders: its container status proves it to the next leader as well.
func TestProofOfDeathSurvivesAChangeOfLeaders(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		task := d.storedBy(former)
		if delays := d.signalled("a"); len(delays) == 0 || delays[0] != 0 {
			t.Errorf("the pod is not looked at: %v", delays)
		}
		if holders := d.Agent(inNS("a")).Holders; len(holders) != 1 || holders[0] != former {
			t.Fatalf("holders %v", holders)
		}
		d.Ended(inNS("a"), Process{PodUID: "pod-a", ID: "q"})
		if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Process != former {
			t.Fatalf("given up because another process has ended: %+v", view)
		}
		d.Ended(inNS("a"), former)
		if view := d.Observe(task, Brief{}); view.Ended == nil || !view.Ended.Lost {
			t.Errorf("not given up: %+v", view)
		}
	})
}

func TestOnlyTheProcessThatWasGivenAnAttemptCanResumeIt(t *testing.T) {
	attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}
	for process, resumes := range map[string]bool{"p": true, "q": false} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			task := d.storedBy(former)
			a := d.joins(t, "a", "s", 1)
			d.Left(a)
			d.says(t, a, process, &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
			if got := d.stales(t, staleRunning) == 0; got != resumes {
				t.Errorf("process %q resumes: %t, want %t", process, got, resumes)
			}
			if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Process != former {
				t.Errorf("process %q: %+v", process, view)
			}
		})
	}
}

// A former leader stored an assignment, and ended before it was sent. The process itself reports that; another one does not know.
func TestStoredAssignmentThatWasNeverSentIsFreeWhenItsProcessSaysSo(t *testing.T) {
	for process, free := range map[string]bool{"p": true, "q": false} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			task := d.storedBy(former)
			a := d.joins(t, "a", "s", 1)
			d.Left(a)
			d.says(t, a, process, &linkv1.Hello{})
			if view := d.Observe(task, Brief{}); (view.Ended != nil) != free {
				t.Errorf("process %q: %+v", process, view)
			}
		})
	}
}

// For an agent whose object is gone, only the lease stored with the assignment shows how long it may work.
func TestStoredAssignmentKeepsTheLeaseOfAnAgentThatIsGone(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		task := d.storedBy(former)
		d.Dismiss(inNS("a"))
		time.Sleep(lapse(time.Hour) - time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Fatalf("given up while the agent may work: %+v", view.Ended)
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil {
			t.Error("not given up after the lease")
		}
	})
}

// The gate of an agent does not become shorter when its object is deleted, before the term began or after.
func TestGateKeepsTheLeaseOfAnAgentThatIsGone(t *testing.T) {
	long := agentsOf([]corev1.Pod{pod("a", "s")})
	long[0].Status.LeaseSeconds = 60
	recreated := agentsOf([]corev1.Pod{pod("a", "s")})
	recreated[0].Status = v1alpha1.AgentStatus{}
	for name, agents := range map[string][]v1alpha1.Agent{"deleted before": nil, "deleted after": long, "created again before": recreated} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.Open(Census{Agents: agents, Pods: []corev1.Pod{pod("a", "s")}})
			d.Dismiss(inNS("a"))
			d.rule("s")
			b := d.joins(t, "b", "s", 1)
			d.task("t", "s")
			time.Sleep(lapse(time.Minute) - time.Millisecond)
			d.heard[b] = time.Now()
			d.steps()
			if given := d.assigned(); len(given) != 0 {
				t.Errorf("%s: given out while the agent may run something that is not stored", name)
			}
			time.Sleep(time.Millisecond)
			d.steps()
			if given := d.assigned(); len(given) != 1 {
				t.Errorf("%s: not given out after the gate", name)
			}
		})
	}
}

// Two processes of a pod are alive. A former leader has assigned the first one a task that is not stored, and the other one
// says Hello first.
func TestGateWaitsForTheProcessThatWasLinked(t *testing.T) {
	linked := agentWith(15)
	linked.Status.LinkedProcess = "p"
	ends := map[string]func(*testing.T, *desk){
		"p is silent": func(*testing.T, *desk) { time.Sleep(lapse(15 * time.Second)) },
		"p says Hello": func(t *testing.T, d *desk) {
			d.Left(leased)
			d.says(t, leased, "p", &linkv1.Hello{})
		},
		"p has ended": func(t *testing.T, d *desk) {
			if holders := d.Agent(inNS("a")).Holders; !slices.Equal(holders, []Process{{"pod-a", "p"}, {"pod-a", "q"}}) {
				t.Errorf("proof is asked for of %v", holders)
			}
			d.Ended(inNS("a"), Process{"pod-a", "p"})
		},
	}
	for name, end := range ends {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.closed()
			d.Open(Census{Agents: []v1alpha1.Agent{*linked}, Pods: []corev1.Pod{pod("a", "s"), pod("b", "s")}})
			d.rule("s")
			b := d.joins(t, "b", "s", 1)
			d.says(t, leased, "q", &linkv1.Hello{})
			d.task("t", "s")
			d.steps()
			if given := d.assigned(); len(given) != 0 {
				t.Fatalf("%s: given out while p may run it", name)
			}
			if linked := d.Agent(inNS("a")).ToRecord; linked != (Process{}) {
				t.Errorf("%s: %v takes the place of a process that the next leader should wait for", name, linked)
			}
			d.signals = nil
			end(t, d)
			d.heard[b] = time.Now()
			d.steps()
			if given := d.assigned(); len(given) != 1 {
				t.Errorf("%s: not given out", name)
			}
			if linked := d.Agent(inNS("a")).ToRecord; linked.PodUID != "pod-a" {
				t.Errorf("%s: no process is to be stored as linked", name)
			}
		})
	}
}

// An ended process is no longer awaited, and the linked one can be stored in its place.
func TestSuccessorOfAProcessThatHasEndedIsRecorded(t *testing.T) {
	linked := agentWith(15)
	linked.Status.LinkedProcess = "p"
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.closed()
		d.signals = nil
		d.Open(Census{Agents: []v1alpha1.Agent{*linked}, Pods: []corev1.Pod{pod("a", "s")}})
		if !slices.Contains(d.signals, signal{"a", 0}) {
			t.Error("nothing looks for the proof that p has ended")
		}
		d.rule("s")
		d.says(t, leased, "q", &linkv1.Hello{})
		d.signals = nil
		d.Ended(inNS("a"), Process{"pod-a", "p"})
		if !slices.Contains(d.signals, signal{"a", 0}) {
			t.Error("the agent is not reconciled when its process can be recorded")
		}
	})
}

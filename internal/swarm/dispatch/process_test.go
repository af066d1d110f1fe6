package dispatch

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// sendHello returns the Hello of a process of an agent's pod.
func (f *fixture) sendHello(t *testing.T, agent link.Agent, process string, hello *linkv1.Hello) {
	t.Helper()
	hello.Swarm, hello.Process, hello.Slots = "s", process, max(hello.GetSlots(), 1)
	f.heardAt[agent] = time.Now()
	if err := f.Joined(agent, "pod-"+agent.Name, hello); err != nil {
		t.Fatal(err)
	}
	state := f.agents[agent]
	if linked := f.processToRecord(state, time.Now()); linked != (Process{}) {
		state.recordedProcess = linked // the controller's turn
	}
	f.grantCredit(agent, int64(hello.Slots))
}

// runningTask returns a task that process "p" of agent a runs, and is stored as that.
func (f *fixture) runningTask(t *testing.T) (link.Agent, *v1alpha1.Task, *linkv1.Attempt) {
	t.Helper()
	f.setSwarms("s")
	a := f.joinAgent(t, "a", "s", 1)
	f.Left(a)
	f.sendHello(t, a, "p", &linkv1.Hello{})
	task := f.createTask("t", "s")
	f.runStep()
	attempt := f.takeAssignments()[0]
	f.storeStatus(task)
	return a, task, attempt
}

func TestHelloOfAnotherProcessProvesNothing(t *testing.T) {
	for _, other := range []string{"q", ""} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			a, task, _ := f.runningTask(t)
			f.Left(a)
			f.sendHello(t, a, other, &linkv1.Hello{})
			time.Sleep(f.leaseTimeout() - time.Millisecond)
			f.heardAt[a] = time.Now() // the other process continues to send heartbeats
			f.runStep()
			if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
				t.Fatalf("process %q: given up while the first one may work: %+v", other, view.End)
			}
			time.Sleep(time.Millisecond)
			f.runStep()
			if view := f.Observe(task, TaskInput{}); view.End == nil || !view.End.Lost {
				t.Errorf("process %q: want it to be lost with the lease of the first one: %+v", other, view)
			}
		})
	}
}

func TestAttemptThatItsProcessDoesNotNameWasNotDelivered(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task, attempt := f.runningTask(t)
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{})
		view := f.Observe(task, TaskInput{})
		if view.End == nil || view.End.Lost || view.End.Outcome != linkv1.Outcome_OUTCOME_DECLINED || view.End.Epoch != attempt.GetEpoch() {
			t.Errorf("%+v", view.End)
		}
	})
}

func TestAttemptIsNotTakenOverByAnotherProcess(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task, attempt := f.runningTask(t)
		f.Left(a)
		f.sendHello(t, a, "q", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
		if stopped := f.takeCancelledEpochs(); len(stopped) != 1 {
			t.Errorf("want the other process to stop it: %v", stopped)
		}
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil || len(f.takeCancelledEpochs()) > 0 {
			t.Errorf("want the first process to go on: %+v", view)
		}
	})
}

func TestWorkOfAProcessThatHasEndedGoesOnAtOnce(t *testing.T) {
	for name, end := range map[string]func(*fixture, link.Agent){
		"goodbye": func(f *fixture, a link.Agent) {
			f.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Goodbye{Goodbye: &linkv1.Goodbye{}}})
		},
		"proof": func(f *fixture, a link.Agent) {
			f.Left(a)
			for _, holder := range f.Agent(types.NamespacedName(a)).Holders {
				f.MarkProcessEnded(types.NamespacedName(a), holder)
			}
		},
		"proof, and its stream is half open": func(f *fixture, a link.Agent) {
			for _, holder := range f.Agent(types.NamespacedName(a)).Holders {
				f.MarkProcessEnded(types.NamespacedName(a), holder)
			}
			if !slices.Equal(f.disconnected, []link.Agent{a}) {
				t.Errorf("disconnected: %v", f.disconnected)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, nil, func(t *testing.T, f *fixture) {
				a, task, _ := f.runningTask(t)
				end(f, a)
				if view := f.Observe(task, TaskInput{}); view.End == nil || !view.End.Lost {
					t.Errorf("%+v", view)
				}
			})
		})
	}
}

// It may run nothing, and would get work on a stream without a reader.
func TestStreamOfAnIdleProcessThatHasEndedIsEnded(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a := f.joinAgent(t, "a", "s", 1)
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{})
		if holders := f.Agent(types.NamespacedName(a)).Holders; !slices.Equal(holders, []Process{{"pod-a", "p"}}) {
			t.Fatalf("proof is asked for of %v", holders)
		}
		f.MarkProcessEnded(types.NamespacedName(a), Process{"pod-a", "q"})
		if len(f.disconnected) > 0 {
			t.Fatal("disconnected because another process has ended")
		}
		f.MarkProcessEnded(types.NamespacedName(a), Process{"pod-a", "p"})
		if !slices.Equal(f.disconnected, []link.Agent{a}) {
			t.Errorf("disconnected: %v", f.disconnected)
		}
	})
}

func TestEndOfAnotherProcessProvesNothing(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task, _ := f.runningTask(t)
		for _, other := range []Process{{"pod-a", "q"}, {"another pod", "p"}, {"pod-a", ""}, {}} {
			f.MarkProcessEnded(types.NamespacedName(a), other)
		}
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
			t.Errorf("%+v", view.End)
		}
	})
}

// The agent has reported it before the operator knew the task. Its process is replaced when that is stored.
func TestAttemptOfAnEarlierProcessExpires(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 5}
		a := f.joinAgent(t, "a", "s", 1)
		f.Left(a)
		f.sendHello(t, a, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
		f.Left(a)
		task := f.createTask("t", "s") // observed only now
		f.storeStatus(task)
		f.sendHello(t, a, "q", &linkv1.Hello{})
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
			t.Fatalf("want it to be held until the lease of its process is over: %+v", view)
		}
		time.Sleep(f.leaseTimeout())
		f.heardAt[a] = time.Now()
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.End == nil || !view.End.Lost {
			t.Errorf("%+v", view)
		}
	})
}

func TestWhatProvesThatAProcessHasEnded(t *testing.T) {
	terminated := func(id, reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id, Reason: reason, Message: message}}
	}
	podWith := func(uid types.UID, status corev1.ContainerStatus) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{}, status}}}
		pod.UID = uid
		return pod
	}
	deleted := podWith("u", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	deleted.DeletionTimestamp = new(metav1.Now())
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		proves bool
	}{
		"being deleted":                {deleted, false},
		"terminated":                   {podWith("u", corev1.ContainerStatus{State: terminated("c", "Error", "p")}), true},
		"terminated and started again": {podWith("u", corev1.ContainerStatus{LastTerminationState: terminated("c", "OOMKilled", "p\n")}), true},
		"another pod":                  {podWith("v", corev1.ContainerStatus{State: terminated("c", "Error", "p")}), false},
		"another process":              {podWith("u", corev1.ContainerStatus{State: terminated("c", "Error", "q")}), false},
		"no name":                      {podWith("u", corev1.ContainerStatus{State: terminated("c", "Error", "")}), false},
		"not seen by the kubelet":      {podWith("u", corev1.ContainerStatus{State: terminated("c", "ContainerStatusUnknown", "p")}), false},
		"no container":                 {podWith("u", corev1.ContainerStatus{State: terminated("", "Error", "p")}), false},
		"a phase, written for the node": {podWith("u",
			corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), false},
	} {
		if got := HasEnded(c.pod, Process{"u", "p"}); got != c.proves {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// An agent must get no echo after its work was given to another.
func TestStreamIsEndedBeforeItsLeaseIsCountedOut(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task, _ := f.runningTask(t)
		f.runStep()
		if len(f.disconnected) > 0 {
			t.Fatal("disconnected while it is alive")
		}
		time.Sleep(f.leaseTimeout())
		f.heartbeatOnDisconnect = true
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
			t.Fatalf("a heartbeat came just in time: %+v", view.End)
		}
		f.heartbeatOnDisconnect = false
		time.Sleep(f.leaseTimeout())
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.End == nil || len(f.disconnected) != 1 || f.disconnected[0] != a {
			t.Errorf("ended: %+v, disconnected: %v", view.End, f.disconnected)
		}
	})
}

// The Hello was in transit for a long time: its agent has abandoned the stream since, and works for another leader.
func TestNothingIsConcludedFromAHelloThatIsNotConfirmed(t *testing.T) {
	withFixture(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "b", "s", 1)
		a := link.Agent{Namespace: "ns", Name: "a"}
		f.heardAt[a] = time.Now()
		if err := f.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Process: "p", Slots: 1}); err != nil {
			t.Fatal(err)
		}
		f.createTask("t", "s")
		f.requireNoneAssigned(t) // a has not answered the Welcome
		f.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: 1}}})
		f.requireAssigned(t)
	})
}

// The next leader waits for the pods that are recorded as linked.
func TestAgentGetsNothingBeforeItsPodIsRecorded(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		f.recordPod(a, "the pod before")
		f.createTask("t", "s")
		f.requireNoneAssigned(t)
		f.recordPod(a, "pod-a")
		f.requireAssigned(t)
	})
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		f.Left(a)
		f.sendHello(t, a, "q", &linkv1.Hello{})
		f.recordPod(a, "pod-a") // by another process
		f.createTask("t", "s")
		f.requireNoneAssigned(t) // the process is not recorded
	})
}

// Once the successor is recorded, the next leader does not wait for the former process. What that one runs has to be stored before.
func TestSuccessorWaitsUntilTheWorkOfTheFormerPodIsStored(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		task := f.createTask("t", "s")
		f.runStep() // sent, and not written yet
		f.Left(a)
		hello := &linkv1.Hello{Swarm: "s", Slots: 1}
		if err := f.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1, Process: "q"}); !errors.Is(err, errUnwritten) {
			t.Fatalf("another process of the pod: got %v", err)
		}
		f.triggers = nil
		if err := f.Joined(a, "successor", hello); !errors.Is(err, errUnwritten) || !slices.Contains(f.triggers, triggered{"t", 0}) {
			t.Fatalf("got %v, and asks for the reconcile of %v", err, f.triggers)
		}
		f.storeStatus(task)
		if err := f.Joined(a, "successor", hello); err != nil {
			t.Error(err)
		}
	})
}

// orphanedAttempt has process "p" of agent a name an attempt that a former leader assigned and never wrote, and whose task is not
// known yet. Then p is gone.
func (f *fixture) orphanedAttempt(t *testing.T) (link.Agent, *linkv1.Attempt) {
	t.Helper()
	f.term = 2
	f.setSwarms("s")
	a := f.joinAgent(t, "a", "s", 1)
	f.Left(a)
	attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 1}
	f.sendHello(t, a, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
	f.Left(a)
	return a, attempt
}

// joinSuccessor returns the Hello of process "q", the successor of "p".
func (f *fixture) joinSuccessor(a link.Agent) error {
	return f.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1, Process: "q"})
}

func TestSuccessorWaitsUntilOrphansOfTheFormerProcessAreStored(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, attempt := f.orphanedAttempt(t)
		f.triggers = nil
		if err := f.joinSuccessor(a); !errors.Is(err, errUnwritten) || !slices.Contains(f.triggers, triggered{"t", 0}) {
			t.Fatalf("its task is being looked for: got %v, and asks for the reconcile of %v", err, f.triggers)
		}
		task := f.createTask("t", "s")
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Epoch != attempt.GetEpoch() {
			t.Fatalf("%+v", view)
		}
		if err := f.joinSuccessor(a); !errors.Is(err, errUnwritten) {
			t.Fatalf("its task is known, and not stored as assigned: got %v", err)
		}
		f.storeStatus(task)
		if err := f.joinSuccessor(a); err != nil {
			t.Errorf("it is stored: %v", err)
		}
	})
}

func TestSuccessorDoesNotWaitForFinishedOrphans(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *fixture, link.Agent){
		"its task is gone":         func(_ *testing.T, f *fixture, _ link.Agent) { f.Forget(namespacedName("t")) },
		"its lease is over":        func(_ *testing.T, f *fixture, _ link.Agent) { time.Sleep(f.leaseTimeout()); f.runStep() },
		"its process is connected": func(t *testing.T, f *fixture, a link.Agent) { f.sendHello(t, a, "p", &linkv1.Hello{}); f.Left(a) },
		"its process has ended": func(t *testing.T, f *fixture, a link.Agent) {
			former := Process{"pod-a", "p"}
			if holders := f.Agent(types.NamespacedName(a)).Holders; !slices.Contains(holders, former) {
				t.Errorf("proof is asked for of %v", holders)
			}
			f.MarkProcessEnded(types.NamespacedName(a), former)
		},
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			a, _ := f.orphanedAttempt(t)
			end(t, f, a)
			if err := f.joinSuccessor(a); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// The epoch of an attempt was never issued, as far as this leader knows. It cannot be stored, so only its process has the
// next leader wait for it.
func TestSuccessorWaitsForAnAttemptThatIsContested(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.createTask("t", "s")
		a := f.joinAgent(t, "a", "s", 1)
		f.Left(a)
		f.sendHello(t, a, "p",
			&linkv1.Hello{Running: []*linkv1.Attempt{{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 9 << 32}}})
		f.Left(a)
		if err := f.joinSuccessor(a); !errors.Is(err, errUnwritten) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(f.leaseTimeout())
		f.runStep()
		if err := f.joinSuccessor(a); err != nil {
			t.Errorf("its lease is over: %v", err)
		}
	})
}

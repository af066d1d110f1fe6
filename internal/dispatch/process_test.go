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

// says returns the Hello of a process of an agent's pod.
func (d *desk) says(t *testing.T, who link.Agent, process string, hello *linkv1.Hello) {
	t.Helper()
	hello.Swarm, hello.Process, hello.Slots = "s", process, max(hello.GetSlots(), 1)
	d.heard[who] = time.Now()
	if err := d.Joined(who, "pod-"+who.Name, hello); err != nil {
		t.Fatal(err)
	}
	member := d.agents[who]
	if linked := d.processToRecord(member, time.Now()); linked != (Process{}) {
		member.recorded = linked // the controller's turn
	}
	d.credit(who, int64(hello.Slots))
}

// given returns a task that process "p" of agent a runs, and is stored as that.
func (d *desk) given(t *testing.T) (link.Agent, *v1alpha1.Task, *linkv1.Attempt) {
	t.Helper()
	d.rule("s")
	a := d.joins(t, "a", "s", 1)
	d.Left(a)
	d.says(t, a, "p", &linkv1.Hello{})
	task := d.task("t", "s")
	d.steps()
	attempt := d.assigned()[0]
	d.settles(task)
	return a, task, attempt
}

func TestHelloOfAnotherProcessProvesNothing(t *testing.T) {
	for _, other := range []string{"q", ""} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			a, task, _ := d.given(t)
			d.Left(a)
			d.says(t, a, other, &linkv1.Hello{})
			time.Sleep(d.lapse() - time.Millisecond)
			d.heard[a] = time.Now() // the other process continues to send heartbeats
			d.steps()
			if view := d.Observe(task, Brief{}); view.Held == nil {
				t.Fatalf("process %q: given up while the first one may work: %+v", other, view.Ended)
			}
			time.Sleep(time.Millisecond)
			d.steps()
			if view := d.Observe(task, Brief{}); view.Ended == nil || !view.Ended.Lost {
				t.Errorf("process %q: want it to be lost with the lease of the first one: %+v", other, view)
			}
		})
	}
}

func TestAttemptThatItsProcessDoesNotNameWasNotDelivered(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, task, attempt := d.given(t)
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{})
		view := d.Observe(task, Brief{})
		if view.Ended == nil || view.Ended.Lost || view.Ended.Outcome != linkv1.Outcome_OUTCOME_DECLINED || view.Ended.Epoch != attempt.GetEpoch() {
			t.Errorf("%+v", view.Ended)
		}
	})
}

func TestAttemptIsNotTakenOverByAnotherProcess(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, task, attempt := d.given(t)
		d.Left(a)
		d.says(t, a, "q", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
		if stopped := d.cancelled(); len(stopped) != 1 {
			t.Errorf("want the other process to stop it: %v", stopped)
		}
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
		if view := d.Observe(task, Brief{}); view.Held == nil || len(d.cancelled()) > 0 {
			t.Errorf("want the first process to go on: %+v", view)
		}
	})
}

func TestWorkOfAProcessThatHasEndedGoesOnAtOnce(t *testing.T) {
	for name, end := range map[string]func(*desk, link.Agent){
		"goodbye": func(d *desk, a link.Agent) {
			d.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Goodbye{Goodbye: &linkv1.Goodbye{}}})
		},
		"proof": func(d *desk, a link.Agent) {
			d.Left(a)
			for _, holder := range d.Agent(types.NamespacedName(a)).Holders {
				d.Ended(types.NamespacedName(a), holder)
			}
		},
		"proof, and its stream is half open": func(d *desk, a link.Agent) {
			for _, holder := range d.Agent(types.NamespacedName(a)).Holders {
				d.Ended(types.NamespacedName(a), holder)
			}
			if !slices.Equal(d.disconnected, []link.Agent{a}) {
				t.Errorf("disconnected: %v", d.disconnected)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, nil, func(t *testing.T, d *desk) {
				a, task, _ := d.given(t)
				end(d, a)
				if view := d.Observe(task, Brief{}); view.Ended == nil || !view.Ended.Lost {
					t.Errorf("%+v", view)
				}
			})
		})
	}
}

// It may run nothing, and would get work on a stream without a reader.
func TestStreamOfAnIdleProcessThatHasEndedIsEnded(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a := d.joins(t, "a", "s", 1)
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{})
		if holders := d.Agent(types.NamespacedName(a)).Holders; !slices.Equal(holders, []Process{{"pod-a", "p"}}) {
			t.Fatalf("proof is asked for of %v", holders)
		}
		d.Ended(types.NamespacedName(a), Process{"pod-a", "q"})
		if len(d.disconnected) > 0 {
			t.Fatal("disconnected because another process has ended")
		}
		d.Ended(types.NamespacedName(a), Process{"pod-a", "p"})
		if !slices.Equal(d.disconnected, []link.Agent{a}) {
			t.Errorf("disconnected: %v", d.disconnected)
		}
	})
}

func TestEndOfAnotherProcessProvesNothing(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, task, _ := d.given(t)
		for _, other := range []Process{{"pod-a", "q"}, {"another pod", "p"}, {"pod-a", ""}, {}} {
			d.Ended(types.NamespacedName(a), other)
		}
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Errorf("%+v", view.Ended)
		}
	})
}

// The agent has reported it before the operator knew the task. Its process is replaced when that is stored.
func TestAttemptOfAnEarlierProcessExpires(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 5}
		a := d.joins(t, "a", "s", 1)
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
		d.Left(a)
		task := d.task("t", "s") // observed only now
		d.settles(task)
		d.says(t, a, "q", &linkv1.Hello{})
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Fatalf("want it to be held until the lease of its process is over: %+v", view)
		}
		time.Sleep(d.lapse())
		d.heard[a] = time.Now()
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil || !view.Ended.Lost {
			t.Errorf("%+v", view)
		}
	})
}

func TestWhatProvesThatAProcessHasEnded(t *testing.T) {
	terminated := func(id, reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id, Reason: reason, Message: message}}
	}
	of := func(uid types.UID, status corev1.ContainerStatus) *corev1.Pod {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{}, status}}}
		pod.UID = uid
		return pod
	}
	deleted := of("u", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	deleted.DeletionTimestamp = new(metav1.Now())
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		proves bool
	}{
		"being deleted":                 {deleted, false},
		"terminated":                    {of("u", corev1.ContainerStatus{State: terminated("c", "Error", "p")}), true},
		"terminated and started again":  {of("u", corev1.ContainerStatus{LastTerminationState: terminated("c", "OOMKilled", "p\n")}), true},
		"another pod":                   {of("v", corev1.ContainerStatus{State: terminated("c", "Error", "p")}), false},
		"another process":               {of("u", corev1.ContainerStatus{State: terminated("c", "Error", "q")}), false},
		"no name":                       {of("u", corev1.ContainerStatus{State: terminated("c", "Error", "")}), false},
		"not seen by the kubelet":       {of("u", corev1.ContainerStatus{State: terminated("c", "ContainerStatusUnknown", "p")}), false},
		"no container":                  {of("u", corev1.ContainerStatus{State: terminated("", "Error", "p")}), false},
		"a phase, written for the node": {of("u", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), false},
	} {
		if got := HasEnded(c.pod, Process{"u", "p"}); got != c.proves {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// An agent must get no echo after its work was given to another.
func TestStreamIsEndedBeforeItsLeaseIsCountedOut(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, task, _ := d.given(t)
		d.steps()
		if len(d.disconnected) > 0 {
			t.Fatal("disconnected while it is alive")
		}
		time.Sleep(d.lapse())
		d.heardLate = true
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Fatalf("a heartbeat came just in time: %+v", view.Ended)
		}
		d.heardLate = false
		time.Sleep(d.lapse())
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil || len(d.disconnected) != 1 || d.disconnected[0] != a {
			t.Errorf("ended: %+v, disconnected: %v", view.Ended, d.disconnected)
		}
	})
}

// The Hello was in transit for a long time: its agent has abandoned the stream since, and works for another leader.
func TestNothingIsConcludedFromAHelloThatIsNotConfirmed(t *testing.T) {
	atDesk(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "b", "s", 1)
		a := link.Agent{Namespace: "ns", Name: "a"}
		d.heard[a] = time.Now()
		if err := d.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Process: "p", Slots: 1}); err != nil {
			t.Fatal(err)
		}
		d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Fatalf("given out before a has answered the Welcome: %v", given)
		}
		d.Received(a, &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: 1}}})
		d.steps()
		if given := d.assigned(); len(given) != 1 {
			t.Errorf("want one assignment: %v", given)
		}
	})
}

// The next leader waits for the pods that are recorded as linked.
func TestAgentGetsNothingBeforeItsPodIsRecorded(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		d.records(a, "the pod before")
		d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Fatalf("given out: %v", given)
		}
		d.records(a, "pod-a")
		d.steps()
		if given := d.assigned(); len(given) != 1 {
			t.Errorf("want one assignment: %v", given)
		}
	})
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		d.Left(a)
		d.says(t, a, "q", &linkv1.Hello{})
		d.records(a, "pod-a") // by another process
		d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Errorf("given to a process that is not recorded: %v", given)
		}
	})
}

// Once the successor is recorded, the next leader does not wait for the former process. What that one runs has to be stored before.
func TestSuccessorWaitsUntilTheWorkOfTheFormerPodIsStored(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps() // sent, and not written yet
		d.Left(a)
		hello := &linkv1.Hello{Swarm: "s", Slots: 1}
		if err := d.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1, Process: "q"}); !errors.Is(err, errUnwritten) {
			t.Fatalf("another process of the pod: got %v", err)
		}
		d.signals = nil
		if err := d.Joined(a, "successor", hello); !errors.Is(err, errUnwritten) || !slices.Contains(d.signals, signal{"t", 0}) {
			t.Fatalf("got %v, and asks for the reconcile of %v", err, d.signals)
		}
		d.settles(task)
		if err := d.Joined(a, "successor", hello); err != nil {
			t.Error(err)
		}
	})
}

// strays has process "p" of agent a name an attempt that a former leader assigned and never wrote, and whose task is not
// known yet. Then p is gone.
func (d *desk) strays(t *testing.T) (link.Agent, *linkv1.Attempt) {
	t.Helper()
	d.term = 2
	d.rule("s")
	a := d.joins(t, "a", "s", 1)
	d.Left(a)
	attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 1}
	d.says(t, a, "p", &linkv1.Hello{Running: []*linkv1.Attempt{attempt}})
	d.Left(a)
	return a, attempt
}

// succeeds returns the Hello of process "q", the successor of "p".
func (d *desk) succeeds(a link.Agent) error {
	return d.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1, Process: "q"})
}

func TestSuccessorWaitsUntilStraysOfTheFormerProcessAreStored(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, attempt := d.strays(t)
		d.signals = nil
		if err := d.succeeds(a); !errors.Is(err, errUnwritten) || !slices.Contains(d.signals, signal{"t", 0}) {
			t.Fatalf("its task is being looked for: got %v, and asks for the reconcile of %v", err, d.signals)
		}
		task := d.task("t", "s")
		if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Epoch != attempt.GetEpoch() {
			t.Fatalf("%+v", view)
		}
		if err := d.succeeds(a); !errors.Is(err, errUnwritten) {
			t.Fatalf("its task is known, and not stored as assigned: got %v", err)
		}
		d.settles(task)
		if err := d.succeeds(a); err != nil {
			t.Errorf("it is stored: %v", err)
		}
	})
}

func TestSuccessorDoesNotWaitForStraysThatAreOver(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *desk, link.Agent){
		"its task is gone":         func(_ *testing.T, d *desk, _ link.Agent) { d.Forget(inNS("t")) },
		"its lease is over":        func(_ *testing.T, d *desk, _ link.Agent) { time.Sleep(d.lapse()); d.steps() },
		"its process is connected": func(t *testing.T, d *desk, a link.Agent) { d.says(t, a, "p", &linkv1.Hello{}); d.Left(a) },
		"its process has ended": func(t *testing.T, d *desk, a link.Agent) {
			former := Process{"pod-a", "p"}
			if holders := d.Agent(types.NamespacedName(a)).Holders; !slices.Contains(holders, former) {
				t.Errorf("proof is asked for of %v", holders)
			}
			d.Ended(types.NamespacedName(a), former)
		},
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			a, _ := d.strays(t)
			end(t, d, a)
			if err := d.succeeds(a); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// The epoch of an attempt was never issued, as far as this leader knows. It cannot be stored, so only its process has the
// next leader wait for it.
func TestSuccessorWaitsForAnAttemptThatIsContested(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.task("t", "s")
		a := d.joins(t, "a", "s", 1)
		d.Left(a)
		d.says(t, a, "p", &linkv1.Hello{Running: []*linkv1.Attempt{{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 9 << 32}}})
		d.Left(a)
		if err := d.succeeds(a); !errors.Is(err, errUnwritten) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(d.lapse())
		d.steps()
		if err := d.succeeds(a); err != nil {
			t.Errorf("its lease is over: %v", err)
		}
	})
}

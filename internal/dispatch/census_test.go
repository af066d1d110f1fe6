package dispatch

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A pod that was force-deleted while there was no leader may still run a first attempt that was never written, wherever its node is.
func TestNewLeaderWaitsForAPodOfWhichOnlyTheNameIsLeft(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		linked := v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}}}
		linked.Namespace, linked.Name = "ns", "a"
		linked.Status = v1alpha1.AgentStatus{PodUID: "pod-before", Conditions: []metav1.Condition{v1alpha1.Linked(1)}}
		d.Open(Census{Agents: []v1alpha1.Agent{linked}, Pods: []corev1.Pod{pod("a", "s")}})
		d.rule("s")
		d.joins(t, "a", "s", 1)
		d.task("t", "s")
		time.Sleep(d.lapse() - time.Millisecond)
		d.steps()
		if given := d.assigned(); len(given) != 0 {
			t.Fatalf("given out while the pod before may run it: %v", given)
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if given := d.assigned(); len(given) != 1 {
			t.Errorf("given out after lease and margin: %v", given)
		}
	})
}

// The next leader has to wait for that pod as well, so the pod's successor is stored as linked only when the wait is over.
func TestPodIsNamedInStatusAsLongAsItIsAwaited(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		former := v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}}}
		former.Namespace, former.Name, former.Status.LinkedPodUID = "ns", "a", "pod-before"
		d.Open(Census{Agents: []v1alpha1.Agent{former}, Pods: []corev1.Pod{pod("a", "s"), pod("b", "s")}})
		d.joins(t, "a", "s", 1)
		d.joins(t, "b", "s", 1)
		if a, b := d.Agent(inNS("a")).ToRecord.PodUID, d.Agent(inNS("b")).ToRecord.PodUID; a != "" || b != "pod-b" {
			t.Errorf("to be stored as linked: %q and %q", a, b)
		}
		if !slices.Contains(d.signalled("a"), d.lapse()) {
			t.Errorf("looks again after %v", d.signalled("a"))
		}
		time.Sleep(d.lapse())
		if a := d.Agent(inNS("a")).ToRecord.PodUID; a != "pod-a" {
			t.Errorf("to be stored as linked after lease and margin: %q", a)
		}
	})
}

func TestTheEndOfALeaseIsDueAsSoonAsSomethingIsGivenOut(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		d.task("t", "s")
		if next := d.step(time.Now()); next > d.lapse() {
			t.Errorf("looks again after %s, when the lease has been over for long", next)
		}
	})
}

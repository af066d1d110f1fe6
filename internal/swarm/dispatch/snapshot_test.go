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
func TestNewLeaderWaitsForADeletedPod(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		linked := v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}}}
		linked.Namespace, linked.Name = "ns", "a"
		linked.Status = v1alpha1.AgentStatus{PodUID: "pod-before", Conditions: []metav1.Condition{v1alpha1.Linked(1)}}
		f.Open(Snapshot{Agents: []v1alpha1.Agent{linked}, Pods: []corev1.Pod{pod("a", "s")}})
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 1)
		f.createTask("t", "s")
		f.requireAssignedAfter(t, f.leaseTimeout())
	})
}

// The next leader has to wait for that pod as well, so the pod's successor is stored as linked only when the wait is over.
func TestPodIsNamedInStatusAsLongAsItIsAwaited(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		former := v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}}}
		former.Namespace, former.Name, former.Status.LinkedPodUID = "ns", "a", "pod-before"
		f.Open(Snapshot{Agents: []v1alpha1.Agent{former}, Pods: []corev1.Pod{pod("a", "s"), pod("b", "s")}})
		f.joinAgent(t, "a", "s", 1)
		f.joinAgent(t, "b", "s", 1)
		if a, b := f.Agent(namespacedName("a")).ProcessToRecord.PodUID, f.Agent(namespacedName("b")).ProcessToRecord.PodUID; a != "" ||
			b != "pod-b" {
			t.Errorf("to be stored as linked: %q and %q", a, b)
		}
		if !slices.Contains(f.takeTriggerDelays("a"), f.leaseTimeout()) {
			t.Errorf("looks again after %v", f.takeTriggerDelays("a"))
		}
		time.Sleep(f.leaseTimeout())
		if a := f.Agent(namespacedName("a")).ProcessToRecord.PodUID; a != "pod-a" {
			t.Errorf("to be stored as linked after lease and margin: %q", a)
		}
	})
}

func TestLeaseEndIsScheduledOnAssignment(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 1)
		f.createTask("t", "s")
		if next := f.step(time.Now()); next > f.leaseTimeout() {
			t.Errorf("looks again after %s, when the lease has been over for long", next)
		}
	})
}

package dispatch

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// An agent that offers more slots than its object declares gets no more work for it, and the status shows the slots that count.
func TestAgentGetsNoMoreThanItsObjectDeclares(t *testing.T) {
	for declared, want := range map[int32]int{0: 5, 2: 2, 9: 5} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			f.joinAgent(t, "a", "s", 5)
			object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker", Slots: declared}}
			object.Namespace, object.Name, object.Status.LinkedPodUID = "ns", "a", "pod-a"
			f.SetAgent(object, 0)
			for n := range 7 {
				f.createTask(fmt.Sprint("t", n), "s")
			}
			f.runStep()
			if attempts := f.takeAssignments(); len(attempts) != want {
				t.Errorf("%d slots declared, 5 offered: %d attempts given", declared, len(attempts))
			}
			if percent := f.Agent(types.NamespacedName{Namespace: "ns", Name: "a"}).Workload.Slots; int(percent) != want {
				t.Errorf("%d slots declared, 5 offered: %d shown", declared, percent)
			}
		})
	}
}

// If an object declares more slots than before, its agent is considered again.
func TestAgentGetsWorkWhenItsObjectDeclaresMore(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 5)
		object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker", Slots: 1}}
		object.Namespace, object.Name, object.Status.LinkedPodUID = "ns", "a", "pod-a"
		f.SetAgent(object, 0)
		for n := range 3 {
			f.createTask(fmt.Sprint("t", n), "s")
		}
		f.runStep()
		f.takeAssignments()
		object.Spec.Slots = 3
		f.SetAgent(object, 0)
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) != 2 {
			t.Errorf("%d more attempts given, want 2", len(attempts))
		}
	})
}

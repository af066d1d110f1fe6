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
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			d.joins(t, "a", "s", 5)
			object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker", Slots: declared}}
			object.Namespace, object.Name, object.Status.LinkedPodUID = "ns", "a", "pod-a"
			d.Enrol(object, 0)
			for n := range 7 {
				d.task(fmt.Sprint("t", n), "s")
			}
			d.steps()
			if given := d.assigned(); len(given) != want {
				t.Errorf("%d slots declared, 5 offered: %d attempts given", declared, len(given))
			}
			if shown := d.Agent(types.NamespacedName{Namespace: "ns", Name: "a"}).Workload.Slots; int(shown) != want {
				t.Errorf("%d slots declared, 5 offered: %d shown", declared, shown)
			}
		})
	}
}

// An object that declares more slots than before has its agent looked at again.
func TestAgentGetsWorkWhenItsObjectDeclaresMore(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 5)
		object := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker", Slots: 1}}
		object.Namespace, object.Name, object.Status.LinkedPodUID = "ns", "a", "pod-a"
		d.Enrol(object, 0)
		for n := range 3 {
			d.task(fmt.Sprint("t", n), "s")
		}
		d.steps()
		d.assigned()
		object.Spec.Slots = 3
		d.Enrol(object, 0)
		d.steps()
		if given := d.assigned(); len(given) != 2 {
			t.Errorf("%d more attempts given, want 2", len(given))
		}
	})
}

package agent

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func TestMembershipChangedPassesWhatAgentsReport(t *testing.T) {
	swarm := func(change func(*v1alpha1.Swarm)) *v1alpha1.Swarm {
		changed := &v1alpha1.Swarm{}
		changed.Generation = 1
		changed.Spec.Agents = []v1alpha1.AgentType{{Type: "coder"}}
		changed.Status.Types = []v1alpha1.AgentTypeStatus{{Type: "coder", Desired: 2}}
		change(changed)
		return changed
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Swarm)
		passes bool
	}{
		"spec":                       {func(s *v1alpha1.Swarm) { s.Generation = 2 }, true},
		"number of agents":           {func(s *v1alpha1.Swarm) { s.Status.Types[0].Desired = 3 }, true},
		"agents that became ready":   {func(s *v1alpha1.Swarm) { s.Status.Types[0].Ready = 1 }, false},
		"tasks":                      {func(s *v1alpha1.Swarm) { s.Status.Tasks = &v1alpha1.TaskCounts{Running: 1} }, false},
		"another status of the same": {func(s *v1alpha1.Swarm) { s.Status.Selector = "a=b" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: swarm(func(*v1alpha1.Swarm) {}), ObjectNew: swarm(test.change)}
			if passes := membershipChanged().Update(update); passes != test.passes {
				t.Errorf("passes: %t, want %t", passes, test.passes)
			}
		})
	}
}

package task

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A user who may write the status of Tasks can store any epoch. Only that Task is affected.
func TestTaskWithAnUnissuedEpochFails(t *testing.T) {
	for name, c := range map[string]struct {
		epoch int64
		after time.Duration
	}{
		"before it runs":          {3 << 61, 0},
		"while it runs":           {3 << 61, 2 * time.Second},
		"just above the believed": {(1<<30 + 1) << 32, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
				sim.submit("poisoned", behavior{duration: time.Minute})
				sim.advance(c.after)
				task := sim.store.get(namespacedName("poisoned"))
				task.Status.Epoch = c.epoch
				for n := range task.Status.AssignedAgents {
					task.Status.AssignedAgents[n].Epoch = c.epoch
				}
				if _, err := sim.store.updateStatus(task, task.ResourceVersion); err != nil {
					t.Fatal(err)
				}
				sim.advance(time.Minute)
				if status := sim.status("poisoned"); status.Phase != v1alpha1.TaskFailed || status.Reason != string(v1alpha1.ReasonEpochInvalid) {
					t.Errorf("%+v", status)
				}
				if sent := sim.events.count("poisoned", v1alpha1.ReasonEpochInvalid); sent != 1 {
					t.Errorf("%d events, want 1", sent)
				}
				sim.changeLeader()
				sim.submit("next", behavior{duration: time.Second})
				sim.advance(2 * time.Minute)
				sim.assertCompleted(t, "next", 1)
			})
		})
	}
}

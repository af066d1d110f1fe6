package task

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A user who may write the status of Tasks can store any epoch. Only that Task is affected.
func TestTaskWithAnEpochThatWasNeverGivenOutFails(t *testing.T) {
	for name, c := range map[string]struct {
		epoch int64
		after time.Duration
	}{
		"before it runs":          {3 << 61, 0},
		"while it runs":           {3 << 61, 2 * time.Second},
		"just above the believed": {(1<<30 + 1) << 32, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
				w.submit("poisoned", work{takes: time.Minute})
				w.pass(c.after)
				task := w.store.get(named("poisoned"))
				task.Status.Epoch = c.epoch
				for n := range task.Status.AssignedAgents {
					task.Status.AssignedAgents[n].Epoch = c.epoch
				}
				if _, err := w.store.put(task, task.ResourceVersion); err != nil {
					t.Fatal(err)
				}
				w.pass(time.Minute)
				if status := w.status("poisoned"); status.Phase != v1alpha1.TaskFailed || status.Reason != string(v1alpha1.ReasonEpochInvalid) {
					t.Errorf("%+v", status)
				}
				if sent := w.events.count("poisoned", v1alpha1.ReasonEpochInvalid); sent != 1 {
					t.Errorf("%d events, want 1", sent)
				}
				w.next()
				w.submit("next", work{takes: time.Second})
				w.pass(2 * time.Minute)
				w.completes(t, "next", 1)
			})
		})
	}
}

package task

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// An agent becomes free while the end of a task that has waited too long is being stored.
func TestTaskThatTimesOutInTheQueueIsNotAssigned(t *testing.T) {
	simulate(t, nil, func(t *testing.T, sim *simulation) {
		sim.faults.setBeforeStore(func(task *v1alpha1.Task) {
			if task.Status.Phase.Final() && sim.process("a") == nil {
				sim.startPod("a", 1)
				time.Sleep(time.Second)
			}
		})
		sim.submit("t", behavior{duration: 500 * time.Millisecond}, func(spec *v1alpha1.TaskSpec) {
			spec.Timeouts = &v1alpha1.TaskTimeouts{QueueSeconds: 5}
		})
		sim.advance(20 * time.Second)
		if status := sim.status("t"); status.Reason != string(v1alpha1.ReasonTimedOut) || len(sim.attempts.runsOf("t")) > 0 {
			t.Error(sim.describe())
		}
	})
}

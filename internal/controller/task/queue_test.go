package task

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// An agent becomes free while the end of a task that has waited too long is being stored.
func TestTaskThatTimesOutInTheQueueIsNotGivenOut(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, w *cluster) {
		w.faults.onStoring(func(task *v1alpha1.Task) {
			if task.Status.Phase.Final() && w.agent("a") == nil {
				w.pod("a", 1)
				time.Sleep(time.Second)
			}
		})
		w.submit("t", work{takes: 500 * time.Millisecond}, func(spec *v1alpha1.TaskSpec) {
			spec.Timeouts = &v1alpha1.TaskTimeouts{QueueSeconds: 5}
		})
		w.pass(20 * time.Second)
		if status := w.status("t"); status.Reason != string(v1alpha1.ReasonTimedOut) || len(w.journal.of("t")) > 0 {
			t.Error(w.describe())
		}
	})
}

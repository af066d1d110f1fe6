package task

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A ConfigMap that is created later causes no event for the task.
func TestMissingPayloadIsReadAgain(t *testing.T) {
	for reason, want := range map[v1alpha1.Reason]time.Duration{
		v1alpha1.ReasonPayloadNotFound: configMapRetryInterval, v1alpha1.ReasonNoFreeSlot: 0,
	} {
		got := plan(&v1alpha1.Task{}, waitingSnapshot(reason, time.Hour), noon)
		switch {
		case want == 0 && !got.RequeueAt.IsZero():
			t.Errorf("%s: looks again in %s", reason, got.RequeueAt.Sub(noon))
		case want > 0 && (got.RequeueAt.Sub(noon) != want || got.RequeueReason != string(reason)):
			t.Errorf("%s: looks again at %s because of %q", reason, got.RequeueAt, got.RequeueReason)
		}
	}
}

// A task that has to wait says so once: also if it ran, or waited for something else before.
func TestStopIsReportedOnce(t *testing.T) {
	const reason = v1alpha1.ReasonSuspended
	for name, c := range map[string]struct {
		phase    v1alpha1.TaskPhase
		reason   v1alpha1.Reason
		reported bool
	}{
		"it ran":                   {v1alpha1.TaskRunning, reason, true},
		"it waited for a slot":     {v1alpha1.TaskPending, v1alpha1.ReasonNoFreeSlot, true},
		"it was suspended already": {v1alpha1.TaskPending, reason, false},
	} {
		task := &v1alpha1.Task{Status: v1alpha1.TaskStatus{Phase: c.phase, Reason: string(c.reason)}}
		got := plan(task, snapshot{stopRequest: &stopRequest{phase: v1alpha1.TaskPending, reason: reason}}, noon)
		if got.Status.Phase != v1alpha1.TaskPending || got.Status.Reason != string(reason) || (got.Event == corev1.EventTypeNormal) != c.reported {
			t.Errorf("%s: %s, %s, event %q", name, got.Status.Phase, got.Status.Reason, got.Event)
		}
	}
}

package spread

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// The reasons of events.
const (
	configurationError    = "ConfigurationError"
	spotUnavailable       = "SpotUnavailable"
	podRescheduled        = "PodRescheduled"
	reconciliationSuccess = "ReconciliationSuccess"
)

// pendingEvent becomes an event once the annotations are written.
type pendingEvent struct {
	eventType, reason, note string
	related                 *corev1.ObjectReference // nil for the workload alone
}

// publishEvents emits pending events, and one for a status that differs from the last one reported: by this process or, before it started,
// in the annotations.
func (c *controller) publishEvents(t target, previousStatus string, plan plan.Plan) {
	state := t.state
	before, status := state.reportedStatus, plan.StatusText()
	if before == "" {
		before = previousStatus
	}
	if status != before {
		state.pendingEvents = append(state.pendingEvents, statusEvents(plan)...)
	}
	if bound := plan.Decision.ImmovablePods; bound != "" && bound != state.reportedImmovable {
		state.pendingEvents = append(state.pendingEvents, pendingEvent{eventType: corev1.EventTypeWarning, reason: configurationError,
			note: bound})
	}
	for _, event := range state.pendingEvents {
		c.emit(t.Workload, event)
	}
	state.pendingEvents, state.reportedStatus, state.reportedImmovable = nil, status, plan.Decision.ImmovablePods
}

// statusEvents returns the events for a new status.
func statusEvents(plan plan.Plan) []pendingEvent {
	decision := plan.Decision
	switch {
	case decision.Status == split.Invalid:
		return []pendingEvent{{eventType: corev1.EventTypeWarning, reason: configurationError,
			note: fmt.Sprintf("%s (%s)", plan.Problem, decision.Reason)}}
	case plan.Problem != "":
		return []pendingEvent{{eventType: corev1.EventTypeWarning, reason: configurationError, note: plan.Problem}}
	case decision.Status == split.SpotUnavailable:
		return []pendingEvent{{eventType: corev1.EventTypeWarning, reason: spotUnavailable, note: decision.Reason}}
	case decision.Status == split.Balanced:
		return []pendingEvent{{eventType: corev1.EventTypeNormal, reason: reconciliationSuccess, note: decision.Reason}}
	}
	return nil
}

// emit refers to the workload without its resource version, with which no two events would be aggregated.
func (c *controller) emit(workload workloads.Workload, event pendingEvent) {
	regarding := &corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: string(workload.Key.Kind),
		Namespace: workload.Key.Namespace, Name: workload.Key.Name, UID: workload.GetUID(),
	}
	var related runtime.Object
	if event.related != nil {
		related = event.related
	}
	c.recorder.Eventf(regarding, related, event.eventType, event.reason, "Reconcile", "%s", event.note)
}

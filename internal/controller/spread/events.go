package spread

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// The reasons of events.
const (
	configurationError    = "ConfigurationError"
	spotUnavailable       = "SpotUnavailable"
	podRescheduled        = "PodRescheduled"
	reconciliationSuccess = "ReconciliationSuccess"
)

// happening becomes an event once the annotations are written.
type happening struct {
	kind, reason, note string
	about              *corev1.ObjectReference // nil for the workload alone
}

// tell emits pending events, and one for a status that differs from the last one reported: by this process or, before it started, in the
// annotations.
func (k *keeper) tell(of subject, annotated string, made Plan) {
	memory := of.memory
	before, status := memory.status, made.status()
	if before == "" {
		before = annotated
	}
	if status != before {
		memory.news = append(memory.news, became(made)...)
	}
	if bound := made.Decision.ImmovablePods; bound != "" && bound != memory.bound {
		memory.news = append(memory.news, happening{kind: corev1.EventTypeWarning, reason: configurationError, note: bound})
	}
	for _, news := range memory.news {
		k.record(of.Workload, news)
	}
	memory.news, memory.status, memory.bound = nil, status, made.Decision.ImmovablePods
}

// became returns the events for a new status.
func became(made Plan) []happening {
	decision := made.Decision
	switch {
	case decision.Status == engine.Invalid:
		return []happening{{kind: corev1.EventTypeWarning, reason: configurationError, note: fmt.Sprintf("%s (%s)", made.Fault, decision.Reason)}}
	case made.Fault != "":
		return []happening{{kind: corev1.EventTypeWarning, reason: configurationError, note: made.Fault}}
	case decision.Status == engine.SpotUnavailable:
		return []happening{{kind: corev1.EventTypeWarning, reason: spotUnavailable, note: decision.Reason}}
	case decision.Status == engine.Balanced:
		return []happening{{kind: corev1.EventTypeNormal, reason: reconciliationSuccess, note: decision.Reason}}
	}
	return nil
}

// record refers to the workload without its resource version, with which no two events would be aggregated.
func (k *keeper) record(workload survey.Workload, news happening) {
	regarding := &corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: string(workload.Key.Kind),
		Namespace: workload.Key.Namespace, Name: workload.Key.Name, UID: workload.GetUID(),
	}
	var related runtime.Object
	if news.about != nil {
		related = news.about
	}
	k.recorder.Eventf(regarding, related, news.kind, news.reason, "Reconcile", "%s", news.note)
}

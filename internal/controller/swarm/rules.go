package swarm

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/internal/swarm/schedule"
)

// swarmRules returns how the swarm's work is assigned.
func swarmRules(desired manifest.Swarm, snapshot snapshot) dispatch.SwarmRules {
	strategy := schedule.Balanced
	if desired.Spec.Strategy == v1alpha1.SwarmSpecialized {
		strategy = schedule.Specialized
	}
	return dispatch.SwarmRules{Strategy: strategy, Halt: haltReason(desired.Swarm), LeavingAgents: leavingAgents(desired, snapshot.agents)}
}

// pauseAssignment stops the assignment of work in a swarm that is paused by annotation. Its other rules are unknown while it is not
// reconciled: every leader must behave the same, including one that has never seen the swarm without the annotation.
func (r *reconciler) pauseAssignment(swarm types.NamespacedName) {
	r.dispatcher.SetSwarm(swarm, dispatch.SwarmRules{Halt: &dispatch.Wait{
		Reason: v1alpha1.ReasonPaused, Message: "the swarm is paused by the annotation " + v1alpha1.AnnotationPaused + ": remove it to go on",
	}})
}

// haltReason returns why no work is assigned, or nil.
func haltReason(swarm *v1alpha1.Swarm) *dispatch.Wait {
	switch swarm.Spec.Mode {
	case v1alpha1.SwarmPaused:
		return &dispatch.Wait{Reason: v1alpha1.ReasonPaused, Message: "the swarm is paused: set its mode to Running to go on"}
	case v1alpha1.SwarmDraining:
		return &dispatch.Wait{Reason: v1alpha1.ReasonDraining, Message: "the swarm is draining: set its mode to Running to go on"}
	case v1alpha1.SwarmSuspended:
		return &dispatch.Wait{Reason: v1alpha1.ReasonSuspended, Message: "the swarm is suspended: set its mode to Running to go on"}
	}
	return nil
}

package swarm

import (
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/internal/schedule"
)

// rules are what the swarm says about giving out work.
func rules(wanted manifest.Swarm, world world) dispatch.Rules {
	strategy := schedule.Balanced
	if wanted.Spec.Strategy == v1alpha1.SwarmSpecialized {
		strategy = schedule.Specialized
	}
	return dispatch.Rules{Strategy: strategy, Halt: halt(wanted.Swarm), Leaving: leaving(wanted, world.agents)}
}

// halt is why nothing new is given out, or nil.
func halt(swarm *v1alpha1.Swarm) *dispatch.Wait {
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

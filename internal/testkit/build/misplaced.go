package build

import (
	"time"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// Misplaced returns a snapshot in which one of two pods is to be moved to spot nodes: evicted, or deleted if it could not be scheduled in
// time.
func Misplaced(pending bool, now time.Time) split.Snapshot {
	pods := []split.Pod{
		{Name: "a", Number: 0, AssignedClass: split.OnDemand, NodeClass: split.OnDemand, Phase: split.Ready},
		{Name: "b", Number: 1, AssignedClass: split.Spot, NodeClass: split.OnDemand, Phase: split.Ready},
	}
	input := split.Snapshot{
		Policy: &split.Policy{SpotPercent: 50}, Replicas: 2, Pods: pods, Now: now, PendingDeadline: time.Minute,
		Spot: split.Capacity{Nodes: 1}, OnDemand: split.Capacity{Nodes: 1}, Budget: split.Budget{Allowed: split.NoLimit, Step: 1},
	}
	if pending {
		input.Spot.Nodes, input.Spot.Static = 0, true
		input.Pods[1].NodeClass, input.Pods[1].Phase = "", split.Pending
	}
	return input
}

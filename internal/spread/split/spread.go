// Package split splits the replicas of a workload between spot and on-demand nodes, and decides which pods to move to reach and keep
// that split.
//
// It promises:
//   - The same snapshot gives the same decision, whatever the order of its pods.
//   - Replica number k has one class, whatever the number of replicas: every prefix has the right mix, so scaling moves nothing.
//   - A move never leads away from the desired split, and a balanced workload is not changed.
//   - A Ready pod is moved only within what disruption budgets and the operator's own step allow, and never off on-demand nodes when that
//     would leave fewer Ready pods there than the minimum. The one exception is a pod whose node is going away.
//   - A lack of room deletes only Pending pods, and the numbers below the minimum wait for on-demand nodes without a limit.
//   - A class without a Ready pod of the workload, or that had no room, is tried with one pod before others follow.
//   - A pod that stays Pending delays moves to the other class by at most its deadline, and to its own by at most Retry.
//
// It never reads the cluster or the clock. State that must outlast a decision comes back with the next snapshot: ClassState.NoCapacitySince
// as Capacity.NoCapacitySince, and the time of the last move. Losing both, as in a restart, costs only one pod that tries again.
//
// Invariants: Split adds up to the replicas; Of(policy, k) is Spot exactly when Split(policy, k+1) has one more on spot than
// Split(policy, k); no two live pods have one place; Numbers never assigns a number that is held.
package split

// Class is the kind of capacity that a node offers.
type Class string

// The classes.
const (
	Spot     Class = "spot"
	OnDemand Class = "on-demand"
)

// Other returns the other class.
func (c Class) Other() Class {
	if c == Spot {
		return OnDemand
	}
	return Spot
}

// Policy is how a workload wants to be split.
type Policy struct {
	MinOnDemand int // the floor, filled first
	SpotPercent int // 0 to 100
}

// Split returns how many of the replicas belong on spot and on on-demand nodes.
func Split(policy Policy, replicas int) (spot, onDemand int) {
	replicas = max(0, replicas)
	// In two parts, because the product may overflow an int.
	share := replicas/100*policy.SpotPercent + replicas%100*policy.SpotPercent/100
	spot = min(share, max(0, replicas-policy.MinOnDemand))
	return spot, replicas - spot
}

// Of returns the class of replica number k, counted from 0.
func Of(policy Policy, k int) Class {
	before, _ := Split(policy, k)
	if after, _ := Split(policy, k+1); after > before {
		return Spot
	}
	return OnDemand
}

// floor returns how many pods always stay on on-demand nodes.
func (p Policy) floor(replicas int) int { return min(p.MinOnDemand, replicas) }

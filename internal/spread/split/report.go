package split

import "fmt"

// decideWithoutPolicy moves nothing.
func decideWithoutPolicy(world Snapshot) Decision {
	decision := Decision{Current: currentDistribution(listLivePods(world.Pods)), problem: world.Problem}
	if world.Problem != "" {
		decision.Status, decision.Reason = Invalid, "nothing is moved until the setting is valid"
	}
	return decision
}

// currentDistribution counts the pods that have a node.
func currentDistribution(seats []livePod) Distribution {
	var current Distribution
	for _, pod := range seats {
		switch pod.NodeClass {
		case Spot:
			current.Spot++
		case OnDemand:
			current.OnDemand++
		}
	}
	return current
}

// setStatus sets the status and the reason of the decision.
func (p *planner) setStatus() {
	d := &p.decision
	d.ImmovablePods = p.immovablePods()
	spotState := d.Classes.Spot.Availability
	switch {
	case p.Problem != "":
		d.problem = p.Problem
		d.Status, d.Reason = Invalid, fmt.Sprintf("the last valid setting stays: at least %d on-demand, %d%% spot", p.policy.MinOnDemand,
			p.policy.SpotPercent)
	case d.Current == d.Desired && len(d.Moves) == 0 && !p.blockedByBudget && p.count(livePod.mustLeave) == 0:
		d.Status, d.Reason = Balanced, p.balancedReason()
	case spotState != Available && d.Current.Spot < d.Desired.Spot:
		d.Status, d.Reason = SpotUnavailable, p.spotUnavailableReason()
	case p.blockedByBudget && len(d.Moves) == 0:
		d.Status, d.Reason = BlockedByPDB, p.waitReason
	default:
		d.Status, d.Reason = Rebalancing, p.progressReason()
	}
}

func (p *planner) balancedReason() string {
	if p.Replicas > 0 && p.Replicas <= p.policy.MinOnDemand {
		return fmt.Sprintf("%s, and the floor is %d: all on-demand", podCount(p.Replicas), p.policy.MinOnDemand)
	}
	return fmt.Sprintf("%d on-demand and %d spot, as wanted", p.decision.Desired.OnDemand, p.decision.Desired.Spot)
}

func (p *planner) spotUnavailableReason() string {
	d := p.decision
	gap := d.Desired.Spot - d.Current.Spot
	if gate := d.Classes.Spot; gate.accepts(gate.ProbeNumber) {
		return fmt.Sprintf("%s short on spot nodes; number %d tries whether there is room again", podCount(gap), gate.ProbeNumber)
	}
	return fmt.Sprintf("%s short on spot nodes, which have no room", podCount(gap))
}

func (p *planner) progressReason() string {
	overdue := p.count(func(pod livePod) bool { return p.isOverdue(pod.Pod) })
	gated := p.count(func(pod livePod) bool { return pod.Gated })
	switch moves := p.decision.Moves; {
	case len(moves) > 0:
		return fmt.Sprintf("moving %s", podCount(len(moves)))
	case p.waitReason != "":
		return "waiting: " + p.waitReason
	case p.decision.ImmovablePods != "":
		return p.decision.ImmovablePods
	case p.count(anyPod) > p.Replicas:
		return fmt.Sprintf("waiting: %s more than the replicas", podCount(p.count(anyPod)-p.Replicas))
	case overdue > 0:
		return fmt.Sprintf("%s pending, and there is no room where they may go", podCount(overdue))
	case gated > 0:
		return fmt.Sprintf("waiting: scheduling gates hold %s back", podCount(gated))
	default:
		return fmt.Sprintf("waiting for %s to come up", podCount(p.countAway()))
	}
}

// immovablePods returns how many pods cannot go where they belong and why the first of them cannot, or "".
func (p *planner) immovablePods() string {
	count, first := 0, ""
	for _, pod := range p.livePods {
		if pod.removed || pod.ImmovableReason == "" || !pod.isMisplaced(p.policy) {
			continue
		}
		if count++; count == 1 {
			first = fmt.Sprintf("%s %s", pod.Name, pod.ImmovableReason)
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s cannot be moved: %s", podCount(count), first)
}

func podCount(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

package spread

import "fmt"

// withoutPolicy moves nothing.
func withoutPolicy(world World) Decision {
	decision := Decision{Current: running(living(world.Pods)), problem: world.Problem}
	if world.Problem != "" {
		decision.Word, decision.Reason = Invalid, "nothing is moved until the setting is valid"
	}
	return decision
}

// running counts the pods that have a node.
func running(seats []seat) Distribution {
	var current Distribution
	for _, pod := range seats {
		switch pod.Node {
		case Spot:
			current.Spot++
		case OnDemand:
			current.OnDemand++
		}
	}
	return current
}

// report sets the word and the reason of the decision.
func (p *pass) report() {
	d := &p.decision
	d.Bound = p.unmovable()
	spot := d.Shortage.Spot.Standing
	switch {
	case p.Problem != "":
		d.problem = p.Problem
		d.Word, d.Reason = Invalid, fmt.Sprintf("the last good setting stays: at least %d on-demand, %d%% spot", p.policy.MinOnDemand, p.policy.SpotPercent)
	case d.Current == d.Desired && len(d.Moves) == 0 && !p.blocked && p.count(seat.leaves) == 0:
		d.Word, d.Reason = Balanced, p.balance()
	case spot != Open && d.Current.Spot < d.Desired.Spot:
		d.Word, d.Reason = SpotUnavailable, p.spotShortage()
	case p.blocked && len(d.Moves) == 0:
		d.Word, d.Reason = BlockedByPDB, p.wait
	default:
		d.Word, d.Reason = Rebalancing, p.progress()
	}
}

func (p *pass) balance() string {
	if p.Replicas > 0 && p.Replicas <= p.policy.MinOnDemand {
		return fmt.Sprintf("%s, and the floor is %d: all on-demand", pods(p.Replicas), p.policy.MinOnDemand)
	}
	return fmt.Sprintf("%d on-demand and %d spot, as wanted", p.decision.Desired.OnDemand, p.decision.Desired.Spot)
}

func (p *pass) spotShortage() string {
	d := p.decision
	gap := d.Desired.Spot - d.Current.Spot
	if gate := d.Shortage.Spot; gate.takes(gate.Probe) {
		return fmt.Sprintf("%s short on spot nodes; number %d tries whether there is room again", pods(gap), gate.Probe)
	}
	return fmt.Sprintf("%s short on spot nodes, which have no room", pods(gap))
}

func (p *pass) progress() string {
	stuck := p.count(func(pod seat) bool { return p.overdue(pod.Pod) })
	gated := p.count(func(pod seat) bool { return pod.Gated })
	switch moves := p.decision.Moves; {
	case len(moves) > 0:
		return fmt.Sprintf("moving %s", pods(len(moves)))
	case p.wait != "":
		return "waiting: " + p.wait
	case p.decision.Bound != "":
		return p.decision.Bound
	case p.count(alive) > p.Replicas:
		return fmt.Sprintf("waiting: %s more than the replicas", pods(p.count(alive)-p.Replicas))
	case stuck > 0:
		return fmt.Sprintf("%s pending, and there is no room where they may go", pods(stuck))
	case gated > 0:
		return fmt.Sprintf("waiting: scheduling gates hold %s back", pods(gated))
	default:
		return fmt.Sprintf("waiting for %s to come up", pods(p.away()))
	}
}

// unmovable returns how many pods cannot go where they belong and why the first of them cannot, or "".
func (p *pass) unmovable() string {
	count, first := 0, ""
	for _, pod := range p.seats {
		if pod.gone || pod.Bound == "" || !pod.misplaced(p.policy) {
			continue
		}
		if count++; count == 1 {
			first = fmt.Sprintf("%s %s", pod.Name, pod.Bound)
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s cannot be moved: %s", pods(count), first)
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

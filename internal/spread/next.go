package spread

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// pass is the state of one decision.
type pass struct {
	World
	policy   Policy
	seats    []seat
	mixed    bool // the pods belong to several ReplicaSets
	decision Decision
	wait     string // why no more pods are moved now
	blocked  bool   // a disruption budget is the reason
}

// Next decides which pods to move now, and why.
func Next(world World) Decision {
	if world.Policy == nil {
		return withoutPolicy(world)
	}
	world.Replicas = max(0, world.Replicas)
	p := &pass{World: world, policy: *world.Policy, seats: seated(*world.Policy, world.Replicas, world.Pods)}
	p.mixed = slices.ContainsFunc(p.seats, func(pod seat) bool { return pod.Set != p.seats[0].Set })
	p.decision.Desired, p.decision.Current = Wanted(p.policy, world.Replicas), running(p.seats)
	p.decision.Shortage = Shortage{Spot: p.gateOf(Spot), OnDemand: p.gateOf(OnDemand)}
	p.fallBack()
	p.rescue()
	p.rebalance()
	p.report()
	return p.decision
}

// fallBack deletes pods that are overdue on their class and may go to the other one.
func (p *pass) fallBack() {
	for n := range p.seats {
		pod := &p.seats[n]
		switch to, welcome := p.decision.Shortage.room(p.policy, p.reborn(pod)); {
		case pod.Phase != Pending:
		case !p.overdue(pod.Pod):
			p.lookAgain(p.deadline(pod.Pod))
		case pod.Made == "" || pod.stands() == Unnumbered: // not placed by us, so a new pod would be no better off
		case welcome && to != pod.Made:
			p.move(pod, to, fmt.Sprintf("no room on %s nodes for %s: falls back to %s", pod.Made, p.Now.Sub(pod.Created).Round(time.Second), to))
		}
	}
}

// reborn returns the number that the replacement of a pod will have. During a rollout each ReplicaSet numbers its own pods.
func (p *pass) reborn(pod *seat) int {
	if p.mixed && pod.Number != Unnumbered {
		return pod.Number
	}
	return pod.stands()
}

// rescue replaces pods before their nodes go away, regardless of other moves. A Ready pod stays for a while where that keeps the
// workload serving. If there is certainly no node for its replacement, a pod keeps serving for as long as it can.
func (p *pass) rescue() {
	for n := range p.seats {
		pod := &p.seats[n]
		to, welcome := p.decision.Shortage.room(p.policy, p.reborn(pod))
		switch {
		case !pod.leaves() || pod.gone:
		case p.arriving(pod):
			p.waitFor(leavesFirst)
			p.lookAgain(p.settled(pod.Pod))
		case !welcome && p.empty(to) && !pod.Lost:
			p.waitFor(nowhere)
			pod.stays = true
		case pod.Phase == Ready && p.held(pod):
		default:
			p.move(pod, to, "its node is going away")
		}
	}
}

// held reports whether a Ready pod stays for now. A pod on a lost node does not serve, so only a disruption budget can keep it.
func (p *pass) held(pod *seat) bool {
	return !pod.Lost && p.keeps(pod) || p.exhausted()
}

// keeps reports whether a Ready pod stays for now on a node that is going away, and records why. A cordon has no deadline, so the step
// and the windows apply as for any other move. An interruption notice has one, so all pods go at once except the last Ready one, which
// goes when a replacement is Ready or the deadline is near. An only replica goes at once: nothing would become Ready while it stays.
func (p *pass) keeps(pod *seat) bool {
	serving := func(s seat) bool { return s.Phase == Ready && !s.Lost }
	switch {
	case pod.Cordoned && p.Hold != "":
		p.waitFor(p.Hold)
	case pod.Cordoned && p.away()+p.surplusGone() >= max(1, p.Budget.Step):
		p.waitFor(p.stepReached())
	case !pod.Cordoned && p.Replicas > 1 && p.count(serving) <= 1 && p.Now.Before(pod.urgent()):
		p.waitFor(lastReady)
		p.lookAgain(pod.urgent())
	default:
		return false
	}
	return true
}

// waitFor records why no more pods are moved. A disruption budget takes precedence over other reasons.
func (p *pass) waitFor(reason string) {
	if !p.blocked {
		p.wait = reason
	}
}

// arriving reports whether a replica has only just come and stays for a while, unless it no longer serves. Without this, pods would
// never settle where every node gets a notice at once, or where a pod returns to the node it left.
func (p *pass) arriving(pod *seat) bool {
	return p.fresh(pod.Pod) && (!pod.Lost || pod.Phase == Starting)
}

const (
	leavesFirst = "pods of nodes that are going away come first"
	lastReady   = "the last Ready pod stays until a replacement is Ready, or until the deadline of its node is near"
	nowhere     = "there is no other node for pods of nodes that are going away"
)

// leaves reports whether a pod has to leave its node.
func (s seat) leaves() bool { return s.Doomed && s.Phase != Pending && s.stands() != Unnumbered }

// rebalance moves the surplus of a class, as far as it may be moved now.
func (p *pass) rebalance() {
	to, due := p.due()
	if due == 0 || p.blocked {
		return
	}
	if p.wait = p.waits(to); p.wait != "" {
		return
	}
	for _, pod := range p.candidates(to)[:min(due, p.pace(to))] {
		if p.refuses(pod) {
			return
		}
		reason := fmt.Sprintf("number %d belongs on %s nodes, and %s has more than its share", pod.number, to, to.Other())
		if gate := p.decision.Shortage.gate(to); gate.Standing == Probing {
			gate.Probe, reason = pod.number, reason+": tries whether there is room again"
		}
		p.move(pod, to, reason)
	}
}

// due returns the class that has too few pods, and how many can be moved to it. Two pods that run on each other's class are left
// alone: only the mix counts.
func (p *pass) due() (Class, int) {
	strayed := func(to Class) int {
		return p.count(func(pod seat) bool { return pod.misplaced(p.policy) && pod.where() != to })
	}
	toSpot, toOnDemand := strayed(Spot), strayed(OnDemand)
	to, surplus := Spot, toSpot-toOnDemand
	if surplus < 0 {
		to, surplus = OnDemand, -surplus
	}
	return to, min(surplus, len(p.candidates(to)))
}

func (s seat) misplaced(policy Policy) bool {
	return s.number != Unnumbered && s.where() != "" && s.where() != Of(policy, s.number)
}

// candidates returns the pods that run on the wrong class: those that do not serve first, then the highest numbers.
func (p *pass) candidates(to Class) []*seat {
	var all []*seat
	for n := range p.seats {
		if pod := &p.seats[n]; !pod.gone && pod.misplaced(p.policy) && pod.where() != to && pod.Bound == "" {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *seat) int { return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(b.number, a.number)) })
	return all
}

// waits returns why nothing can be moved to a class now.
func (p *pass) waits(to Class) string {
	rested, recovered := p.lastMove().Add(p.Cooldown), p.LastMove.Add(p.retry())
	gate := p.decision.Shortage.gate(to)
	switch excess := p.count(alive) - p.Replicas; {
	case p.Hold != "":
		return p.Hold
	case excess > 0:
		return fmt.Sprintf("%s more than the replicas: the workload is shrinking", pods(excess))
	case slices.ContainsFunc(p.seats, func(pod seat) bool { return pod.leaves() && !pod.stays }):
		return leavesFirst
	case gate.Standing == Closed:
		return fmt.Sprintf("there is no room on %s nodes", to)
	case p.astray() && p.Now.Before(recovered):
		p.lookAgain(recovered)
		return "the last replacement came without a place: can the API server reach the webhook?"
	case p.Now.Before(rested):
		p.lookAgain(rested)
		return fmt.Sprintf("the last change was less than %s ago", p.Cooldown)
	case p.pace(to) == 0:
		return fmt.Sprintf("one pod tries %s nodes first", to)
	default:
		return ""
	}
}

// pace returns how many pods may move to a class at once: one until a pod has become Ready there.
func (p *pass) pace(to Class) int {
	gate := p.decision.Shortage.gate(to)
	switch proven := gate.Standing == Open && p.provenSince(to, gate.Failed); {
	case proven && p.astray():
		return 1
	case proven:
		return p.Replicas
	}
	trying := p.count(func(pod seat) bool { return p.underway(pod, to) })
	for _, k := range p.missing() {
		if p.decision.Shortage.Place(p.policy, k) == to {
			trying++
		}
	}
	return max(0, 1-trying)
}

// astray reports whether the first pod created after the last move has no place. Moving other pods would not help either while the
// webhook is not called.
func (p *pass) astray() bool {
	var first *seat
	for n := range p.seats {
		pod := &p.seats[n]
		if came := !pod.Created.Before(p.LastMove.Truncate(grain)); came && (first == nil || pod.Created.Before(first.Created)) {
			first = pod
		}
	}
	return first != nil && first.Made == "" && !p.LastMove.IsZero()
}

// lastMove is the recorded time or, after a restart, the creation time of the newest pod.
func (p *pass) lastMove() time.Time {
	last := p.LastMove
	for _, pod := range p.seats {
		if pod.Created.After(last) {
			last = pod.Created
		}
	}
	return last
}

// refuses reports whether a pod has to stay for now, and records why. Moving a pod without a node disrupts nothing.
func (p *pass) refuses(pod *seat) bool {
	floor, step := p.policy.floor(p.Replicas), max(1, p.Budget.Step)
	onDemand := p.count(func(pod seat) bool { return pod.Node == OnDemand && pod.Phase == Ready })
	switch {
	case pod.Phase == Pending:
		return false
	case pod.Phase == Starting && p.away() > step:
		p.wait = p.stepReached()
	case pod.Phase == Ready && p.away() >= step:
		p.wait = p.stepReached()
	case pod.Node == OnDemand && pod.Phase == Ready && onDemand <= floor:
		p.wait = fmt.Sprintf("only %d Ready on on-demand nodes, and the floor is %d", onDemand, floor)
	default:
		return p.exhausted()
	}
	return true
}

func (p *pass) stepReached() string {
	return fmt.Sprintf("%s of %d away: replacements come first", pods(p.away()+p.surplusGone()), p.Replicas)
}

// exhausted reports whether the disruption budgets allow nothing more, and records it.
func (p *pass) exhausted() bool {
	if p.Budget.Override || p.Budget.Allowed == NoLimit || p.Budget.Allowed > 0 {
		return false
	}
	p.wait, p.blocked = "its PodDisruptionBudget allows no more disruption now", true
	return true
}

// away counts the replicas that are about to become Ready. Overdue pods do not count: there is no telling how long they will take.
func (p *pass) away() int {
	settled := p.count(func(pod seat) bool { return pod.number != Unnumbered && (pod.Phase == Ready || p.overdue(pod.Pod)) })
	return p.Replicas - settled
}

// surplusGone counts the Ready pods beyond the replicas that this decision removes. They get no replacement, but serve like all others
// during a rollout.
func (p *pass) surplusGone() int {
	total := 0
	for _, pod := range p.seats {
		if pod.gone && pod.number == Unnumbered && pod.Phase == Ready {
			total++
		}
	}
	return total
}

func (p *pass) move(pod *seat, to Class, reason string) {
	move := Move{Pod: pod.Name, Number: pod.stands(), Verb: Evict, From: pod.where(), To: to, Reason: reason}
	switch {
	case pod.Phase == Pending:
		move.Verb = Delete
	case p.Budget.Override:
		move.Verb = Delete
	case p.Budget.Allowed > 0 && pod.Phase == Ready:
		p.Budget.Allowed--
	}
	pod.gone = true
	p.decision.Moves = append(p.decision.Moves, move)
}

func (p *pass) count(what func(seat) bool) int {
	total := 0
	for _, pod := range p.seats {
		if !pod.gone && what(pod) {
			total++
		}
	}
	return total
}

func alive(seat) bool { return true }

// missing returns the numbers below the replicas that have no pod, in ascending order.
func (p *pass) missing() []int {
	held := make([]bool, max(0, p.Replicas))
	for _, pod := range p.seats {
		if pod.number != Unnumbered && !pod.gone {
			held[pod.number] = true
		}
	}
	var free []int
	for k, taken := range held {
		if !taken {
			free = append(free, k)
		}
	}
	return free
}

// lookAgain requests another decision at a time; the earliest request wins.
func (p *pass) lookAgain(at time.Time) {
	if at.After(p.Now) && (p.decision.Again.IsZero() || at.Before(p.decision.Again)) {
		p.decision.Again = at
	}
}

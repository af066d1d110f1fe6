package spread

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// pass is one decision in the making.
type pass struct {
	World
	policy   Policy
	seats    []seat
	mixed    bool // there are pods of several ReplicaSets
	decision Decision
	wait     string // why no more is moved now
	blocked  bool   // it is a disruption budget
}

// Next decides which pods to move now, and why or why not.
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

// fallBack deletes the pods that wait in vain and are welcome elsewhere.
func (p *pass) fallBack() {
	for n := range p.seats {
		pod := &p.seats[n]
		switch to, welcome := p.decision.Shortage.room(p.policy, p.reborn(pod)); {
		case pod.Phase != Pending:
		case !p.overdue(pod.Pod):
			p.lookAgain(p.deadline(pod.Pod))
		case pod.Made == "" || pod.stands() == Unnumbered: // not placed by us, so a new one would be no better off
		case welcome && to != pod.Made:
			p.move(pod, to, fmt.Sprintf("no room on %s nodes for %s: falls back to %s", pod.Made, p.Now.Sub(pod.Created).Round(time.Second), to))
		}
	}
}

// reborn is the number that the replacement of a pod will have. While there are pods of two ReplicaSets each has numbers of its own.
func (p *pass) reborn(pod *seat) int {
	if p.mixed && pod.Number != Unnumbered {
		return pod.Number
	}
	return pod.stands()
}

// rescue replaces the pods of nodes that are going away before they go. It waits for no other move; a Ready pod stays for a while where
// that keeps the workload serving. Where it is sure that there is no node for its replacement, a pod serves as long as it can.
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

// held reports whether a Ready pod stays for now. One that serves nobody, whatever its phase, may go all the same, which the API server knows best.
func (p *pass) held(pod *seat) bool {
	return !pod.Lost && p.keeps(pod) || p.exhausted()
}

// keeps reports whether a Ready pod stays for now on a node that is going away, and notes why. A cordon has no deadline, so step and
// windows hold as for any other move. An interruption notice has one, so that all pods but the last Ready one go at once; that one goes when a
// replacement is Ready, or when the deadline is near. The only replica goes at once: nothing would become Ready while it stays.
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

// waitFor notes why nothing more is moved. A budget that stands in the way is the better reason.
func (p *pass) waitFor(reason string) {
	if !p.blocked {
		p.wait = reason
	}
}

// arriving tells whether a replica has only just come and stays for a while, unless nobody is served any more: where every node is given
// notice at once, or a pod comes back to the node that it left, pods would never come to rest.
func (p *pass) arriving(pod *seat) bool {
	return p.fresh(pod.Pod) && (!pod.Lost || pod.Phase == Starting)
}

const (
	leavesFirst = "pods of nodes that are going away come first"
	lastReady   = "the last Ready pod stays until a replacement is Ready, or until the deadline of its node is near"
	nowhere     = "there is no other node for pods of nodes that are going away"
)

// leaves tells whether a pod has to leave its node.
func (s seat) leaves() bool { return s.Doomed && s.Phase != Pending && s.stands() != Unnumbered }

// rebalance moves what a class has too many of, as many as may be moved now.
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

// due is the class that has too few pods, and how many can be moved to it. Pairs of pods that stand on each other's class are
// left alone: the mix is what counts.
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

// candidates are the pods that belong on a class and are not there: those that serve nobody first, then the highest numbers.
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

// waits is why nothing can be moved to a class now.
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

// pace is how many pods may set out for a class at once: one while nobody has been seen to arrive.
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

// astray tells whether the first pod that came after the last move has no place. To move others would not bring them where they belong
// either, as long as nobody asks admission.
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

// lastMove is known or, after a restart, guessed from the newest pod.
func (p *pass) lastMove() time.Time {
	last := p.LastMove
	for _, pod := range p.seats {
		if pod.Created.After(last) {
			last = pod.Created
		}
	}
	return last
}

// refuses tells whether a pod has to stay for now, and notes why. A pod that has no node disturbs nobody.
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

// exhausted tells whether the disruption budgets allow nothing more, and notes it.
func (p *pass) exhausted() bool {
	if p.Budget.Override || p.Budget.Allowed == NoLimit || p.Budget.Allowed > 0 {
		return false
	}
	p.wait, p.blocked = "its PodDisruptionBudget allows no more disruption now", true
	return true
}

// away are the replicas that are on their way to being Ready. A pod that waits in vain is not: nobody knows for how long.
func (p *pass) away() int {
	settled := p.count(func(pod seat) bool { return pod.number != Unnumbered && (pod.Phase == Ready || p.overdue(pod.Pod)) })
	return p.Replicas - settled
}

// surplusGone counts the Ready pods beyond the replicas that this decision takes away. No replacement is awaited for them, but during a rollout they
// serve like all others.
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

// missing are the numbers below the replicas that have no pod, ascending.
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

// lookAgain asks for another decision at a time, the earliest of those asked for.
func (p *pass) lookAgain(at time.Time) {
	if at.After(p.Now) && (p.decision.Again.IsZero() || at.Before(p.decision.Again)) {
		p.decision.Again = at
	}
}

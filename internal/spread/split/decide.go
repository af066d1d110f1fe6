package split

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// planner is the state of one decision.
type planner struct {
	Snapshot
	policy           Policy
	livePods         []livePod
	severalTemplates bool // the pods belong to several ReplicaSets
	decision         Decision
	waitReason       string // why no more pods are moved now
	blockedByBudget  bool   // a disruption budget is the reason
}

// Decide decides which pods to move now, and why.
func Decide(snapshot Snapshot) Decision {
	if snapshot.Policy == nil {
		return decideWithoutPolicy(snapshot)
	}
	snapshot.Replicas = max(0, snapshot.Replicas)
	p := &planner{Snapshot: snapshot, policy: *snapshot.Policy, livePods: assignNumbers(*snapshot.Policy, snapshot.Replicas, snapshot.Pods)}
	p.severalTemplates = slices.ContainsFunc(p.livePods, func(pod livePod) bool { return pod.TemplateHash != p.livePods[0].TemplateHash })
	p.decision.Desired, p.decision.Current = DesiredDistribution(p.policy, snapshot.Replicas), currentDistribution(p.livePods)
	p.decision.Classes = ClassStates{Spot: p.classState(Spot), OnDemand: p.classState(OnDemand)}
	p.fallBack()
	p.evacuate()
	p.rebalance()
	p.setStatus()
	return p.decision
}

// fallBack deletes pods that are overdue on their class and may go to the other one.
func (p *planner) fallBack() {
	for n := range p.livePods {
		pod := &p.livePods[n]
		switch to, accepted := p.decision.Classes.target(p.policy, p.replacementNumber(pod)); {
		case pod.Phase != Pending:
		case !p.isOverdue(pod.Pod):
			p.scheduleRecheck(p.deadline(pod.Pod))
		case pod.AssignedClass == "" || pod.effectiveNumber() == Unnumbered: // not placed by us, so a new pod would be no better off
		case accepted && to != pod.AssignedClass:
			p.move(pod, to, fmt.Sprintf("no room on %s nodes for %s: falls back to %s", pod.AssignedClass, p.Now.Sub(pod.Created).Round(time.Second),
				to))
		}
	}
}

// replacementNumber returns the number that the replacement of a pod will have. During a rollout each ReplicaSet numbers its own pods.
func (p *planner) replacementNumber(pod *livePod) int {
	if p.severalTemplates && pod.Number != Unnumbered {
		return pod.Number
	}
	return pod.effectiveNumber()
}

// evacuate replaces pods before their nodes go away, regardless of other moves. A Ready pod stays for a while where that keeps the
// workload serving. If there is certainly no node for its replacement, a pod keeps serving for as long as it can.
func (p *planner) evacuate() {
	for n := range p.livePods {
		pod := &p.livePods[n]
		to, accepted := p.decision.Classes.target(p.policy, p.replacementNumber(pod))
		switch {
		case !pod.mustLeave() || pod.removed:
		case p.isArriving(pod):
			p.setWaitReason(reasonTerminatingNodesFirst)
			p.scheduleRecheck(p.newUntil(pod.Pod))
		case !accepted && p.lacksCapacity(to) && !pod.NodeDown:
			p.setWaitReason(reasonNoOtherNode)
			pod.hasNoTarget = true
		case pod.Phase == Ready && p.mustStay(pod):
		default:
			p.move(pod, to, "its node is going away")
		}
	}
}

// mustStay reports whether a Ready pod stays for now. A pod on a lost node does not serve, so only a disruption budget can keep it.
func (p *planner) mustStay(pod *livePod) bool {
	return !pod.NodeDown && p.isProtected(pod) || p.isBudgetExhausted()
}

// isProtected reports whether a Ready pod stays for now on a node that is going away, and records why. A cordon has no deadline, so the
// step and the windows apply as for any other move. An interruption notice has one, so all pods go at once except the last Ready one, which
// goes when a replacement is Ready or the deadline is near. An only replica goes at once: nothing would become Ready while it stays.
func (p *planner) isProtected(pod *livePod) bool {
	isServing := func(s livePod) bool { return s.Phase == Ready && !s.NodeDown }
	switch {
	case pod.Cordoned && p.Hold != "":
		p.setWaitReason(p.Hold)
	case pod.Cordoned && p.countAway()+p.countRemovedSurplus() >= max(1, p.Budget.Step):
		p.setWaitReason(p.stepReachedReason())
	case !pod.Cordoned && p.Replicas > 1 && p.count(isServing) <= 1 && p.Now.Before(pod.urgentAt()):
		p.setWaitReason(reasonLastReadyPod)
		p.scheduleRecheck(pod.urgentAt())
	default:
		return false
	}
	return true
}

// setWaitReason records why no more pods are moved. A disruption budget takes precedence over other reasons.
func (p *planner) setWaitReason(reason string) {
	if !p.blockedByBudget {
		p.waitReason = reason
	}
}

// isArriving reports whether a replica has only just come and stays for a while, unless it no longer serves. Without this, pods would
// never settle where every node gets a notice at once, or where a pod returns to the node it left.
func (p *planner) isArriving(pod *livePod) bool {
	return p.isNew(pod.Pod) && (!pod.NodeDown || pod.Phase == Starting)
}

const (
	reasonTerminatingNodesFirst = "pods of nodes that are going away come first"
	reasonLastReadyPod          = "the last Ready pod stays until a replacement is Ready, or until the deadline of its node is near"
	reasonNoOtherNode           = "there is no other node for pods of nodes that are going away"
)

// mustLeave reports whether a pod has to leave its node.
func (p livePod) mustLeave() bool {
	return p.NodeTerminating && p.Phase != Pending && p.effectiveNumber() != Unnumbered
}

// rebalance moves the surplus of a class, as far as it may be moved now.
func (p *planner) rebalance() {
	to, surplus := p.findSurplus()
	if surplus == 0 || p.blockedByBudget {
		return
	}
	if p.waitReason = p.waitReasonFor(to); p.waitReason != "" {
		return
	}
	for _, pod := range p.candidates(to)[:min(surplus, p.moveLimit(to))] {
		if p.blocksMove(pod) {
			return
		}
		reason := fmt.Sprintf("number %d belongs on %s nodes, and %s has more than its share", pod.slot, to, to.Other())
		if gate := p.decision.Classes.state(to); gate.Availability == Probing {
			gate.ProbeNumber, reason = pod.slot, reason+": tries whether there is room again"
		}
		p.move(pod, to, reason)
	}
}

// findSurplus returns the class that has too few pods, and how many can be moved to it. Two pods that run on each other's class are left
// alone: only the mix counts.
func (p *planner) findSurplus() (Class, int) {
	countMisplaced := func(to Class) int {
		return p.count(func(pod livePod) bool { return pod.isMisplaced(p.policy) && pod.class() != to })
	}
	toSpot, toOnDemand := countMisplaced(Spot), countMisplaced(OnDemand)
	to, surplus := Spot, toSpot-toOnDemand
	if surplus < 0 {
		to, surplus = OnDemand, -surplus
	}
	return to, min(surplus, len(p.candidates(to)))
}

func (p livePod) isMisplaced(policy Policy) bool {
	return p.slot != Unnumbered && p.class() != "" && p.class() != Of(policy, p.slot)
}

// candidates returns the pods that run on the wrong class: those that do not serve first, then the highest numbers.
func (p *planner) candidates(to Class) []*livePod {
	var candidates []*livePod
	for n := range p.livePods {
		if pod := &p.livePods[n]; !pod.removed && pod.isMisplaced(p.policy) && pod.class() != to && pod.ImmovableReason == "" {
			candidates = append(candidates, pod)
		}
	}
	slices.SortFunc(candidates, func(a, b *livePod) int { return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(b.slot, a.slot)) })
	return candidates
}

// waitReasonFor returns why nothing can be moved to a class now.
func (p *planner) waitReasonFor(to Class) string {
	cooledDownAt, retryAt := p.lastChange().Add(p.Cooldown), p.LastMove.Add(p.retryPeriod())
	state := p.decision.Classes.state(to)
	switch excess := p.count(anyPod) - p.Replicas; {
	case p.Hold != "":
		return p.Hold
	case excess > 0:
		return fmt.Sprintf("%s more than the replicas: the workload is shrinking", podCount(excess))
	case slices.ContainsFunc(p.livePods, func(pod livePod) bool { return pod.mustLeave() && !pod.hasNoTarget }):
		return reasonTerminatingNodesFirst
	case state.Availability == Unavailable:
		return fmt.Sprintf("there is no room on %s nodes", to)
	case p.lastReplacementUnplaced() && p.Now.Before(retryAt):
		p.scheduleRecheck(retryAt)
		return "the last replacement came without a place: can the API server reach the webhook?"
	case p.Now.Before(cooledDownAt):
		p.scheduleRecheck(cooledDownAt)
		return fmt.Sprintf("the last change was less than %s ago", p.Cooldown)
	case p.moveLimit(to) == 0:
		return fmt.Sprintf("one pod tries %s nodes first", to)
	default:
		return ""
	}
}

// moveLimit returns how many pods may move to a class at once: one until a pod has become Ready there.
func (p *planner) moveLimit(to Class) int {
	gate := p.decision.Classes.state(to)
	switch hasReady := gate.Availability == Available && p.hasReadySince(to, gate.NoCapacitySince); {
	case hasReady && p.lastReplacementUnplaced():
		return 1
	case hasReady:
		return p.Replicas
	}
	probes := p.count(func(pod livePod) bool { return p.isComingUp(pod, to) })
	for _, k := range p.missingNumbers() {
		if p.decision.Classes.ClassFor(p.policy, k) == to {
			probes++
		}
	}
	return max(0, 1-probes)
}

// lastReplacementUnplaced reports whether the first pod created after the last move has no place. Moving other pods would not help either
// while the webhook is not called.
func (p *planner) lastReplacementUnplaced() bool {
	var oldest *livePod
	for n := range p.livePods {
		pod := &p.livePods[n]
		if came := !pod.Created.Before(p.LastMove.Truncate(timestampResolution)); came && (oldest == nil || pod.Created.Before(oldest.Created)) {
			oldest = pod
		}
	}
	return oldest != nil && oldest.AssignedClass == "" && !p.LastMove.IsZero()
}

// lastChange is the recorded time or, after a restart, the creation time of the newest pod.
func (p *planner) lastChange() time.Time {
	latest := p.LastMove
	for _, pod := range p.livePods {
		if pod.Created.After(latest) {
			latest = pod.Created
		}
	}
	return latest
}

// blocksMove reports whether a pod has to stay for now, and records why. Moving a pod without a node disrupts nothing.
func (p *planner) blocksMove(pod *livePod) bool {
	floor, step := p.policy.floor(p.Replicas), max(1, p.Budget.Step)
	onDemand := p.count(func(pod livePod) bool { return pod.NodeClass == OnDemand && pod.Phase == Ready })
	switch {
	case pod.Phase == Pending:
		return false
	case pod.Phase == Starting && p.countAway() > step:
		p.waitReason = p.stepReachedReason()
	case pod.Phase == Ready && p.countAway() >= step:
		p.waitReason = p.stepReachedReason()
	case pod.NodeClass == OnDemand && pod.Phase == Ready && onDemand <= floor:
		p.waitReason = fmt.Sprintf("only %d Ready on on-demand nodes, and the floor is %d", onDemand, floor)
	default:
		return p.isBudgetExhausted()
	}
	return true
}

func (p *planner) stepReachedReason() string {
	return fmt.Sprintf("%s of %d away: replacements come first", podCount(p.countAway()+p.countRemovedSurplus()), p.Replicas)
}

// isBudgetExhausted reports whether the disruption budgets allow nothing more, and records it.
func (p *planner) isBudgetExhausted() bool {
	if p.Budget.Override || p.Budget.Allowed == NoLimit || p.Budget.Allowed > 0 {
		return false
	}
	p.waitReason, p.blockedByBudget = "its PodDisruptionBudget allows no more disruption now", true
	return true
}

// countAway counts the replicas that are about to become Ready. Overdue pods do not count: there is no telling how long they will take.
func (p *planner) countAway() int {
	settled := p.count(func(pod livePod) bool { return pod.slot != Unnumbered && (pod.Phase == Ready || p.isOverdue(pod.Pod)) })
	return p.Replicas - settled
}

// countRemovedSurplus counts the Ready pods beyond the replicas that this decision removes. They get no replacement, but serve like all
// others during a rollout.
func (p *planner) countRemovedSurplus() int {
	total := 0
	for _, pod := range p.livePods {
		if pod.removed && pod.slot == Unnumbered && pod.Phase == Ready {
			total++
		}
	}
	return total
}

func (p *planner) move(pod *livePod, to Class, reason string) {
	move := Move{Pod: pod.Name, Number: pod.effectiveNumber(), Verb: Evict, From: pod.class(), To: to, Reason: reason}
	switch {
	case pod.Phase == Pending:
		move.Verb = Delete
	case p.Budget.Override:
		move.Verb = Delete
	case p.Budget.Allowed > 0 && pod.Phase == Ready:
		p.Budget.Allowed--
	}
	pod.removed = true
	p.decision.Moves = append(p.decision.Moves, move)
}

func (p *planner) count(matches func(livePod) bool) int {
	total := 0
	for _, pod := range p.livePods {
		if !pod.removed && matches(pod) {
			total++
		}
	}
	return total
}

func anyPod(livePod) bool { return true }

// missingNumbers returns the numbers below the replicas that have no pod, in ascending order.
func (p *planner) missingNumbers() []int {
	inUse := make([]bool, max(0, p.Replicas))
	for _, pod := range p.livePods {
		if pod.slot != Unnumbered && !pod.removed {
			inUse[pod.slot] = true
		}
	}
	var free []int
	for k, taken := range inUse {
		if !taken {
			free = append(free, k)
		}
	}
	return free
}

// scheduleRecheck requests another decision at a time; the earliest request wins.
func (p *planner) scheduleRecheck(at time.Time) {
	if at.After(p.Now) && (p.decision.RecheckAt.IsZero() || at.Before(p.decision.RecheckAt)) {
		p.decision.RecheckAt = at
	}
}

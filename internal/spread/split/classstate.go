package split

import "time"

// Availability is whether a class takes pods.
type Availability int

// The standings of a class.
const (
	// Available takes pods.
	Available Availability = iota
	// Unavailable had no room, or has no nodes, and gets no pods.
	Unavailable
	// Probing had no room, and is tried again with one pod.
	Probing
)

// ClassState is the access to a class.
type ClassState struct {
	Availability    Availability
	ProbeNumber     int       // when Probing: the only number that may enter, Unnumbered for none
	NoCapacitySince time.Time // since when the class is known to have no room, zero for never
	PodOverdueAt    time.Time // when an existing pod last became overdue for the class: this concerns other workloads as well
}

func (s ClassState) accepts(k int) bool {
	return s.Availability == Available || s.Availability == Probing && s.ProbeNumber == k && k != Unnumbered
}

// ClassStates records which classes take pods. With the zero value, every number goes where it belongs.
type ClassStates struct{ Spot, OnDemand ClassState }

func (s *ClassStates) state(class Class) *ClassState {
	if class == Spot {
		return &s.Spot
	}
	return &s.OnDemand
}

// ClassFor returns the class where admission puts replica number k. It is that of Of unless a class is short.
func (s ClassStates) ClassFor(policy Policy, k int) Class {
	class, _ := s.target(policy, k)
	return class
}

// target returns where number k goes, and whether it is accepted there. Numbers below the floor never go to spot nodes.
func (s ClassStates) target(policy Policy, k int) (Class, bool) {
	class := Of(policy, k)
	if s.state(class).accepts(k) {
		return class, true
	}
	if class == OnDemand && k < policy.MinOnDemand || !s.state(class.Other()).accepts(k) {
		return class, false
	}
	return class.Other(), true
}

// classState evaluates a class by its nodes, and by the pods that could not be scheduled to it or could not stay.
func (p *planner) classState(class Class) ClassState {
	state := ClassState{ProbeNumber: Unnumbered, PodOverdueAt: p.lastOverdue(class)}
	state.NoCapacitySince = later(p.capacity(class).NoCapacitySince, later(state.PodOverdueAt, p.noCapacitySince(class)))
	retryAt := state.NoCapacitySince.Add(p.retryPeriod())
	if since := p.capacity(class).
		NodeAvailableAt.Add(p.Cooldown); since.After(state.NoCapacitySince) { // a node that had just come had no time to take them
		retryAt = state.NoCapacitySince.Add(2 * p.Cooldown) // a try and the way back are two moves
	}
	switch {
	case p.lacksCapacity(class):
		state.Availability = Unavailable
	case state.NoCapacitySince.IsZero() || p.hasReadySince(class, state.NoCapacitySince):
		state.Availability, state.NoCapacitySince = Available, time.Time{}
	case p.Now.Before(retryAt):
		state.Availability = Unavailable
		p.scheduleRecheck(retryAt)
	default:
		state.Availability, state.ProbeNumber = Probing, p.probeNumber(class)
	}
	return state
}

// lastOverdue returns when a pod last became overdue for a class.
func (p *planner) lastOverdue(class Class) (latest time.Time) {
	for _, pod := range p.livePods {
		if late := p.deadline(pod.Pod); pod.AssignedClass == class && p.isOverdue(pod.Pod) && !late.After(p.Now) {
			latest = later(latest, late)
		}
	}
	return latest
}

// noCapacitySince returns when the last pod of a class was created, if it has just come and every pod there has to leave: nodes that go as
// fast as they come are no room. It is zero if any pod may stay. A node that is not Ready says nothing about the others.
func (p *planner) noCapacitySince(class Class) (latest time.Time) {
	for _, pod := range p.livePods {
		switch {
		case pod.NodeClass != class, pod.NodeDown:
		case !pod.NodeTerminating:
			return time.Time{}
		case p.isNew(pod.Pod):
			latest = later(latest, pod.Created)
		}
	}
	return latest
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hasReadySince reports whether a pod created after a time became Ready on a class and may stay.
func (p *planner) hasReadySince(class Class, since time.Time) bool {
	return p.count(func(pod livePod) bool {
		return pod.NodeClass == class && pod.Phase == Ready && !pod.NodeTerminating && pod.Created.After(since)
	}) > 0
}

// probeNumber returns a number that tries a class again without disruption: a pod that is trying already, a number without a pod, or a pod
// that is overdue elsewhere. If there is none, rebalance has to move a pod.
func (p *planner) probeNumber(class Class) int {
	for _, pod := range p.livePods {
		if pod.slot != Unnumbered && p.isComingUp(pod, class) {
			return pod.slot
		}
	}
	for _, k := range p.missingNumbers() {
		if Of(p.policy, k) == class {
			return k
		}
	}
	for _, pod := range p.livePods {
		if p.isOverdue(pod.Pod) && pod.AssignedClass == class.Other() && p.isAllowed(class, pod.slot) {
			return pod.slot
		}
	}
	return Unnumbered
}

// isComingUp reports whether a pod is about to become Ready on a class.
func (p *planner) isComingUp(pod livePod, class Class) bool {
	return pod.class() == class && (pod.Phase == Starting || pod.Phase == Pending && !p.isOverdue(pod.Pod))
}

func (p *planner) isAllowed(class Class, k int) bool {
	return k != Unnumbered && (class == OnDemand || k >= p.policy.MinOnDemand)
}

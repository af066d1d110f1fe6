package spread

import "time"

// Standing is whether a class takes pods.
type Standing int

// The standings of a class.
const (
	// Open takes pods.
	Open Standing = iota
	// Closed had no room, or has no nodes, and is left alone.
	Closed
	// Probing had no room, and one pod tries again.
	Probing
)

// Gate is the way into a class.
type Gate struct {
	Standing Standing
	Probe    int       // when Probing: the one number that may enter, Unnumbered for none
	Failed   time.Time // since when it is known that there was no room, zero for never
	Missed   time.Time // when a pod that is there has waited long enough for it, zero for none: a failure that concerns others as well
}

func (g Gate) takes(k int) bool {
	return g.Standing == Open || g.Standing == Probing && g.Probe == k && k != Unnumbered
}

// Shortage is which classes take pods. The zero value is none: every number goes where it belongs.
type Shortage struct{ Spot, OnDemand Gate }

func (s *Shortage) gate(class Class) *Gate {
	if class == Spot {
		return &s.Spot
	}
	return &s.OnDemand
}

// Place is the class that admission makes replica number k for. It is Of, as long as nothing is short.
func (s Shortage) Place(policy Policy, k int) Class {
	class, _ := s.room(policy, k)
	return class
}

// room is where number k goes, and whether it is welcome there. The floor never goes to spot nodes.
func (s Shortage) room(policy Policy, k int) (Class, bool) {
	class := Of(policy, k)
	if s.gate(class).takes(k) {
		return class, true
	}
	if class == OnDemand && k < policy.MinOnDemand || !s.gate(class.Other()).takes(k) {
		return class, false
	}
	return class.Other(), true
}

// gateOf judges a class by its nodes and by the pods that waited for it, or came in vain.
func (p *pass) gateOf(class Class) Gate {
	gate := Gate{Probe: Unnumbered, Missed: p.missed(class)}
	gate.Failed = later(p.supply(class).Failed, later(gate.Missed, p.forsaken(class)))
	again := gate.Failed.Add(p.retry())
	if since := p.supply(class).Returned.Add(p.Cooldown); since.After(gate.Failed) { // a node that had just come had no time to take them
		again = gate.Failed.Add(2 * p.Cooldown) // a try and the way back are two moves
	}
	switch {
	case p.empty(class):
		gate.Standing = Closed
	case gate.Failed.IsZero() || p.provenSince(class, gate.Failed):
		gate.Standing, gate.Failed = Open, time.Time{}
	case p.Now.Before(again):
		gate.Standing = Closed
		p.lookAgain(again)
	default:
		gate.Standing, gate.Probe = Probing, p.probe(class)
	}
	return gate
}

// missed is when a pod has last waited long enough for a class.
func (p *pass) missed(class Class) (last time.Time) {
	for _, pod := range p.seats {
		if late := p.deadline(pod.Pod); pod.Made == class && p.overdue(pod.Pod) && !late.After(p.Now) {
			last = later(last, late)
		}
	}
	return last
}

// forsaken is when the last pod of a class was made, if it has just come and all that are there have to leave: nodes that go as fast as
// they come are no room. It is zero when any pod may stay. A node that is silent says nothing about the others.
func (p *pass) forsaken(class Class) (since time.Time) {
	for _, pod := range p.seats {
		switch {
		case pod.Node != class, pod.Lost:
		case !pod.Doomed:
			return time.Time{}
		case p.fresh(pod.Pod):
			since = later(since, pod.Created)
		}
	}
	return since
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// provenSince tells whether a pod that was made after a time got Ready on a class, and may stay.
func (p *pass) provenSince(class Class, since time.Time) bool {
	return p.count(func(pod seat) bool {
		return pod.Node == class && pod.Phase == Ready && !pod.Doomed && pod.Created.After(since)
	}) > 0
}

// probe is the number that tries a class again at no cost to anybody: one that is trying, one that has no pod, one whose pod
// waits in vain elsewhere. Failing these a pod has to be moved, which is for rebalance to say.
func (p *pass) probe(class Class) int {
	for _, pod := range p.seats {
		if pod.number != Unnumbered && p.underway(pod, class) {
			return pod.number
		}
	}
	for _, k := range p.missing() {
		if Of(p.policy, k) == class {
			return k
		}
	}
	for _, pod := range p.seats {
		if p.overdue(pod.Pod) && pod.Made == class.Other() && p.mayEnter(class, pod.number) {
			return pod.number
		}
	}
	return Unnumbered
}

// underway tells whether a pod is on its way to being Ready on a class.
func (p *pass) underway(pod seat, class Class) bool {
	return pod.where() == class && (pod.Phase == Starting || pod.Phase == Pending && !p.overdue(pod.Pod))
}

func (p *pass) mayEnter(class Class, k int) bool {
	return k != Unnumbered && (class == OnDemand || k >= p.policy.MinOnDemand)
}

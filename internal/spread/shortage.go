package spread

import "time"

// Standing is whether a class takes pods.
type Standing int

// The standings of a class.
const (
	// Open takes pods.
	Open Standing = iota
	// Closed had no room, or has no nodes, and gets no pods.
	Closed
	// Probing had no room, and is tried again with one pod.
	Probing
)

// Gate is the access to a class.
type Gate struct {
	Standing Standing
	Probe    int       // when Probing: the only number that may enter, Unnumbered for none
	Failed   time.Time // since when the class is known to have no room, zero for never
	Missed   time.Time // when an existing pod last became overdue for the class, zero for none: this failure concerns other workloads as well
}

func (g Gate) takes(k int) bool {
	return g.Standing == Open || g.Standing == Probing && g.Probe == k && k != Unnumbered
}

// Shortage records which classes take pods. With the zero value, every number goes where it belongs.
type Shortage struct{ Spot, OnDemand Gate }

func (s *Shortage) gate(class Class) *Gate {
	if class == Spot {
		return &s.Spot
	}
	return &s.OnDemand
}

// Place returns the class where admission puts replica number k. It is that of Of unless a class is short.
func (s Shortage) Place(policy Policy, k int) Class {
	class, _ := s.room(policy, k)
	return class
}

// room returns where number k goes, and whether it is accepted there. Numbers below the floor never go to spot nodes.
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

// gateOf judges a class by its nodes, and by the pods that waited for it or came in vain.
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

// missed returns when a pod last became overdue for a class.
func (p *pass) missed(class Class) (last time.Time) {
	for _, pod := range p.seats {
		if late := p.deadline(pod.Pod); pod.Made == class && p.overdue(pod.Pod) && !late.After(p.Now) {
			last = later(last, late)
		}
	}
	return last
}

// forsaken returns when the last pod of a class was created, if it has just come and every pod there has to leave: nodes that go as
// fast as they come are no room. It is zero if any pod may stay. A node that is not Ready says nothing about the others.
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

// provenSince reports whether a pod created after a time became Ready on a class and may stay.
func (p *pass) provenSince(class Class, since time.Time) bool {
	return p.count(func(pod seat) bool {
		return pod.Node == class && pod.Phase == Ready && !pod.Doomed && pod.Created.After(since)
	}) > 0
}

// probe returns a number that tries a class again without disruption: a pod that is trying already, a number without a pod, or a pod
// that is overdue elsewhere. If there is none, rebalance has to move a pod.
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

// underway reports whether a pod is about to become Ready on a class.
func (p *pass) underway(pod seat, class Class) bool {
	return pod.where() == class && (pod.Phase == Starting || pod.Phase == Pending && !p.overdue(pod.Pod))
}

func (p *pass) mayEnter(class Class, k int) bool {
	return k != Unnumbered && (class == OnDemand || k >= p.policy.MinOnDemand)
}

package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// world has what happens without an actor: time, and faults of pods and of the Lease.
func (t *transition) world() {
	t.Step(tick, 0, 0, func() bool { return t.timePasses(true) })
	t.Fault(&t.left.Outages, explore.Step{Action: tickWithoutRenewal}, func() bool { return t.timePasses(false) })
	t.Fault(&t.left.LeaseDeletions, explore.Step{Action: deleteLease}, t.leaseIsDeleted)
	t.Fault(&t.left.AgentDeletions, explore.Step{Action: deleteAgent}, t.agentIsDeleted)
	t.Fault(&t.left.PodReplacements, explore.Step{Action: replacePod}, t.podIsReplaced)
	t.Fault(&t.left.SecondProcesses, explore.Step{Action: startProcess}, t.processIsDoubled)
	t.Fault(&t.left.Cancels, explore.Step{Action: cancelTask}, t.taskIsCancelled)
	t.Step(restartContainer, 0, 0, t.containerRestarts)
	for _, n := range t.acting {
		t.Fault(&t.left.ProcessEnds, explore.Step{Action: crashProcess, Subject: n}, func() bool { return t.processEnds(n) })
		t.Fault(&t.left.Suspensions, explore.Step{Action: suspend, Subject: n}, func() bool { return t.processIsSuspended(n) })
		t.Step(resume, n, 0, func() bool { return t.processResumes(n) })
	}
}

func countDown(timers ...*uint8) {
	for _, timer := range timers {
		if *timer > 0 {
			*timer--
		}
	}
}

// timePasses is one tick. It waits for agents that have to stop a program: an agent's timers cannot be blocked.
func (t *transition) timePasses(renewed bool) bool {
	if t.Scenario.WithinATick {
		return false
	}
	for n := range t.processes {
		if p := &t.processes[n]; t.Rules.Has(FenceCannotBeBlocked) && p.mustFence() {
			return false
		}
	}
	for n := range t.processes {
		t.processAges(&t.processes[n])
	}
	for n := range t.replicas {
		r := &t.replicas[n]
		countDown(&r.fresh, &r.hold, &r.longer)
		for pod := range r.gates {
			countDown(&r.gates[pod])
		}
		for l := range r.links {
			countDown(&r.links[l].timer)
		}
	}
	countDown(&t.store.lease.left)
	if renewed {
		t.leaseIsRenewed()
	}
	return true
}

// leaseIsRenewed happens between two ticks, if nothing prevents the holder and its last renewal is not too old.
func (t *transition) leaseIsRenewed() {
	for n := range t.replicas {
		r := &t.replicas[n]
		if r.leading && r.fresh > 0 && t.store.lease.holder == uint8(n)+1 && t.store.lease.term == r.term {
			r.fresh, t.store.lease.left = renewDeadline, leaseDuration
		}
	}
}

func (t *transition) leaseIsDeleted() bool {
	held := t.store.lease.holder != 0
	t.store.lease = lease{}
	return held
}

func (p *process) mustFence() bool { return p.alive && !p.suspended && p.lease == 0 && p.running != 0 }

// processAges decreases the lease, and increases the age of the messages that the process has sent. The clock counts suspension.
func (t *transition) processAges(p *process) {
	if p.alive && (!p.suspended || t.Rules.Has(ClockCountsSuspension)) {
		countDown(&p.lease)
		if p.lease == 0 && p.running == 0 {
			t.streamEnds(p)
		}
	}
	for _, c := range []*connection{&p.current, &p.former} {
		for n := range c.up {
			t.messageAges(&c.up[n])
			t.messageAges(&c.down[n])
		}
	}
}

func (t *transition) messageAges(m *message) {
	oldest := max(t.Scenario.Leases[0], t.Scenario.Leases[1], t.Scenario.StoredLease, t.Scenario.LeaseOver)
	switch m.kind {
	case hello, heldHello, heartbeat, welcome, echo:
		m.age = min(m.age+1, oldest)
	}
}

// streamEnds drops the stream of an agent that is past its lease.
func (t *transition) streamEnds(p *process) {
	if t.Rules.Has(StreamEndsWithLease) {
		p.abandon()
	}
}

// abandon gives a connection up. Messages that were sent on it may still arrive.
func (p *process) abandon() {
	if p.current.replica != 0 {
		p.former = p.current
		p.current.replica = 0
	}
}

// taskIsCancelled is an action of the user, who may take it at any time.
func (t *transition) taskIsCancelled() bool {
	if t.store.task.cancel || t.store.task.final() {
		return false
	}
	t.store.task.cancel = true
	t.store.task.version++
	t.cachesFollow()
	return true
}

// agentIsDeleted loses the contents of a's object: which process is linked, and how long its lease is. The operator recreates the object.
func (t *transition) agentIsDeleted() bool {
	known := t.store.linked[0] != 0 || t.store.leases[0] != 0
	t.store.linked[0], t.store.leases[0] = 0, 0
	t.cachesFollow()
	return known
}

// podIsReplaced force-deletes a's pod. Its node did not confirm, so the process lives on; a pod of the same name takes its place.
func (t *transition) podIsReplaced() bool {
	if t.store.pods&bit(0) == 0 || t.processes[2].alive || t.store.terminated&bit(2) != 0 {
		return false
	}
	t.store.pods = t.store.pods&^bit(0) | bit(2)
	t.store.terminated &^= bit(0)
	t.processes[2] = process{alive: true, pod: 2}
	return true
}

// processIsDoubled starts a's second process in the pod of the first one, which lives on.
func (t *transition) processIsDoubled() bool {
	if !t.processes[0].alive || t.processes[2].alive || t.store.pods&bit(0) == 0 || t.store.terminated&bit(2) != 0 {
		return false
	}
	t.processes[2] = process{alive: true, pod: 0}
	return true
}

// processEnds leaves a container status that proves it, unless the pod object is gone.
func (t *transition) processEnds(n uint8) bool {
	p := &t.processes[n]
	if !p.alive {
		return false
	}
	if t.store.pods&bit(p.pod) != 0 {
		t.store.terminated |= bit(n)
	}
	former := p.current
	*p = process{pod: p.pod, former: former}
	return true
}

// containerRestarts starts a's second process in the pod of the first one, which has ended.
func (t *transition) containerRestarts() bool {
	if t.processes[0].alive || t.processes[2].alive || t.store.terminated&bit(0) == 0 || t.store.terminated&bit(2) != 0 {
		return false
	}
	t.processes[2] = process{alive: true, pod: 0}
	return true
}

func (t *transition) processIsSuspended(n uint8) bool {
	p := &t.processes[n]
	if !p.alive || p.suspended {
		return false
	}
	p.suspended = true
	return true
}

// processResumes checks its clock first: a suspended program continues only within the lease.
func (t *transition) processResumes(n uint8) bool {
	p := &t.processes[n]
	if !p.suspended {
		return false
	}
	p.suspended = false
	if p.mustFence() {
		p.stop(handedBack)
		t.streamEnds(p)
	}
	t.checkOwners()
	return true
}

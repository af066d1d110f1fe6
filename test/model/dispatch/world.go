package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// worldSteps has what happens without an actor: time, and faults of pods and of the Lease.
func (t *transition) worldSteps() {
	t.Step(tick, 0, 0, func() bool { return t.tick(true) })
	t.Fault(&t.remainingFaults.Outages, explore.Step{Action: tickWithoutRenewal}, func() bool { return t.tick(false) })
	t.Fault(&t.remainingFaults.LeaseDeletions, explore.Step{Action: deleteLease}, t.deleteLease)
	t.Fault(&t.remainingFaults.AgentDeletions, explore.Step{Action: deleteAgent}, t.deleteAgent)
	t.Fault(&t.remainingFaults.PodReplacements, explore.Step{Action: replacePod}, t.replacePod)
	t.Fault(&t.remainingFaults.SecondProcesses, explore.Step{Action: startProcess}, t.startSecondProcess)
	t.Fault(&t.remainingFaults.Cancels, explore.Step{Action: cancelTask}, t.cancelTask)
	t.Step(restartContainer, 0, 0, t.restartContainer)
	for _, n := range t.acting {
		t.Fault(&t.remainingFaults.ProcessEnds, explore.Step{Action: endProcess, Subject: n}, func() bool { return t.endProcess(n) })
		t.Fault(&t.remainingFaults.Suspensions, explore.Step{Action: suspend, Subject: n}, func() bool { return t.suspendProcess(n) })
		t.Step(resume, n, 0, func() bool { return t.resumeProcess(n) })
	}
}

func countDown(timers ...*uint8) {
	for _, timer := range timers {
		if *timer > 0 {
			*timer--
		}
	}
}

// tick is one tick. It waits for agents that have to stop a program: an agent's timers cannot be blocked.
func (t *transition) tick(renewed bool) bool {
	if t.Scenario.WithinATick {
		return false
	}
	for n := range t.processes {
		if p := &t.processes[n]; t.Rules.Has(FenceCannotBeBlocked) && p.mustFence() {
			return false
		}
	}
	for n := range t.processes {
		t.ageProcess(&t.processes[n])
	}
	for n := range t.replicas {
		r := &t.replicas[n]
		countDown(&r.renewalTicks, &r.waitBeforeOpening, &r.longerLeaseTicks)
		for pod := range r.gates {
			countDown(&r.gates[pod])
		}
		for l := range r.links {
			countDown(&r.links[l].timer)
		}
	}
	countDown(&t.store.lease.ticksLeft)
	if renewed {
		t.renewLease()
	}
	return true
}

// renewLease happens between two ticks, if nothing prevents the holder and its last renewal is not too old.
func (t *transition) renewLease() {
	for n := range t.replicas {
		r := &t.replicas[n]
		if r.leading && r.renewalTicks > 0 && t.store.lease.holder == uint8(n)+1 && t.store.lease.term == r.term {
			r.renewalTicks, t.store.lease.ticksLeft = renewDeadline, leaseDuration
		}
	}
}

func (t *transition) deleteLease() bool {
	held := t.store.lease.holder != 0
	t.store.lease = lease{}
	return held
}

func (p *process) mustFence() bool { return p.alive && !p.suspended && p.lease == 0 && p.running != 0 }

// ageProcess decreases the lease, and increases the age of the messages that the process has sent. The clock counts suspension.
func (t *transition) ageProcess(p *process) {
	if p.alive && (!p.suspended || t.Rules.Has(ClockCountsSuspension)) {
		countDown(&p.lease)
		if p.lease == 0 && p.running == 0 {
			t.dropExpiredStream(p)
		}
	}
	for _, c := range []*connection{&p.current, &p.former} {
		for n := range c.toReplica {
			t.ageMessage(&c.toReplica[n])
			t.ageMessage(&c.toAgent[n])
		}
	}
}

func (t *transition) ageMessage(m *message) {
	oldest := max(t.Scenario.Leases[0], t.Scenario.Leases[1], t.Scenario.StoredLease, t.Scenario.LeaseOver)
	switch m.kind {
	case hello, heldHello, heartbeat, welcome, echo:
		m.age = min(m.age+1, oldest)
	}
}

// dropExpiredStream drops the stream of an agent that is past its lease.
func (t *transition) dropExpiredStream(p *process) {
	if t.Rules.Has(StreamEndsWithLease) {
		p.abandonConnection()
	}
}

// abandonConnection gives a connection up. Messages that were sent on it may still arrive.
func (p *process) abandonConnection() {
	if p.current.replica != 0 {
		p.former = p.current
		p.current.replica = 0
	}
}

// cancelTask is an action of the user, who may take it at any time.
func (t *transition) cancelTask() bool {
	if t.store.task.cancel || t.store.task.isFinal() {
		return false
	}
	t.store.task.cancel = true
	t.store.task.version++
	t.syncCaches()
	return true
}

// deleteAgent loses the contents of a's object: which process is linked, and how long its lease is. The operator recreates the object.
func (t *transition) deleteAgent() bool {
	known := t.store.linked[0] != 0 || t.store.leases[0] != 0
	t.store.linked[0], t.store.leases[0] = 0, 0
	t.syncCaches()
	return known
}

// replacePod force-deletes a's pod. Its node did not confirm, so the process lives on; a pod of the same name takes its place.
func (t *transition) replacePod() bool {
	if t.store.pods&bit(0) == 0 || t.processes[2].alive || t.store.terminated&bit(2) != 0 {
		return false
	}
	t.store.pods = t.store.pods&^bit(0) | bit(2)
	t.store.terminated &^= bit(0)
	t.processes[2] = process{alive: true, pod: 2}
	return true
}

// startSecondProcess starts a's second process in the pod of the first one, which lives on.
func (t *transition) startSecondProcess() bool {
	if !t.processes[0].alive || t.processes[2].alive || t.store.pods&bit(0) == 0 || t.store.terminated&bit(2) != 0 {
		return false
	}
	t.processes[2] = process{alive: true, pod: 0}
	return true
}

// endProcess leaves a container status that proves it, unless the pod object is gone.
func (t *transition) endProcess(n uint8) bool {
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

// restartContainer starts a's second process in the pod of the first one, which has ended.
func (t *transition) restartContainer() bool {
	if t.processes[0].alive || t.processes[2].alive || t.store.terminated&bit(0) == 0 || t.store.terminated&bit(2) != 0 {
		return false
	}
	t.processes[2] = process{alive: true, pod: 0}
	return true
}

func (t *transition) suspendProcess(n uint8) bool {
	p := &t.processes[n]
	if !p.alive || p.suspended {
		return false
	}
	p.suspended = true
	return true
}

// resumeProcess checks its clock first: a suspended program continues only within the lease.
func (t *transition) resumeProcess(n uint8) bool {
	p := &t.processes[n]
	if !p.suspended {
		return false
	}
	p.suspended = false
	if p.mustFence() {
		p.stop(handedBack)
		t.dropExpiredStream(p)
	}
	t.checkOwners()
	return true
}

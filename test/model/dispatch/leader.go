package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// replica has the steps of a replica of the operator by itself.
func (t *transition) replica(r uint8) {
	t.Step(elect, r, 0, func() bool { return t.takeLease(r) })
	t.Step(takeOver, r, 0, func() bool { return t.takeOverLease(r) })
	t.Step(openTerm, r, 0, func() bool { return t.open(r) })
	t.Step(observeTask, r, 0, func() bool { return t.observe(r) })
	for _, n := range t.acting {
		t.Step(storeLink, r, n, func() bool { return t.storeLink(r, n) })
		t.Step(storeLease, r, n, func() bool { return t.storeLease(r, n) })
		t.Step(assignTask, r, n, func() bool { return t.assignTask(r, n) })
		t.Step(expire, r, n, func() bool { return t.expire(r, n) })
	}
	t.Step(giveUpTerminated, r, 0, func() bool { return t.giveUpTerminated(r) })
	t.Step(storeAssignment, r, 0, func() bool { return t.storeAssignment(r) })
	t.Step(storeEnd, r, 0, func() bool { return t.storeEnd(r) })
	t.Step(storeCancel, r, 0, func() bool { return t.storeCancel(r) })
	t.Step(stopAttempt, r, 0, func() bool { return t.stopAttempt(r) })
	t.Fault(&t.remainingFaults.LeaderCrashes, explore.Step{Action: crashLeader, Subject: r}, func() bool { return t.resetReplica(r) })
	t.Fault(&t.remainingFaults.LeaderReleases, explore.Step{Action: releaseLease, Subject: r}, func() bool { return t.releaseLease(r) })
	t.Step(recreateLease, r, 0, func() bool { return t.recreateLease(r) })
	t.Step(stopLeading, r, 0, func() bool { return t.replicas[r].renewalTicks == 0 && t.resetReplica(r) })
	t.apiServerSteps(r)
}

// mayAct reports whether a replica may send and write: only while its last renewal is fresh.
func (t *transition) mayAct(r uint8) bool {
	l := &t.replicas[r]
	return l.leading && (l.renewalTicks > 0 || !t.Rules.Has(LeaderFreshness))
}

// takeLease makes a standby the leader if the Lease was not renewed for its duration, or does not exist.
func (t *transition) takeLease(r uint8) bool {
	return t.store.lease.ticksLeft == 0 && t.becomeLeader(r)
}

// becomeLeader makes a standby the leader. The term is above that of every earlier leader, even if the Lease was deleted and counts from 1
// again.
func (t *transition) becomeLeader(r uint8) bool {
	l, current := &t.replicas[r], &t.store.lease
	deleted := current.term == 0
	if l.leading || current.term >= t.Scenario.Terms || t.store.termFloor >= t.Scenario.Terms {
		return false
	}
	term := current.term + 1
	if t.Rules.Has(TermOutsideLease) {
		term = max(term, t.store.termFloor+1)
	}
	term = max(term, t.store.task.epoch.term()+1)
	disowned := deleted && t.Rules.Has(DisownedWhenContested)
	*current = lease{holder: r + 1, term: term, ticksLeft: leaseDuration, disowned: disowned}
	t.store.termFloor = max(t.store.termFloor, term)
	*l = replica{leading: true, term: term, renewalTicks: renewDeadline, disowned: disowned, cache: l.cache, write: l.write}
	if deleted && t.Rules.Has(FormerLeaderWaitedOut) {
		l.waitBeforeOpening = renewDeadline // the Lease was not seen to expire, so its former holder may still speak
	}
	return true
}

// recreateLease is the reaction of a leader to the deletion of its Lease, if no other replica has claimed a term since.
func (t *transition) recreateLease(r uint8) bool {
	l := &t.replicas[r]
	if !l.leading || l.renewalTicks == 0 || t.store.lease.term != 0 || t.store.termFloor > l.term && t.Rules.Has(RecreateUnchallenged) {
		return false
	}
	t.store.lease = lease{holder: r + 1, term: l.term, ticksLeft: leaseDuration, disowned: l.disowned}
	l.renewalTicks = renewDeadline
	return true
}

// open begins the term. Caches have caught up with the API server, the task is read, and the gate is closed until every pod
// that may run something has reported what it runs. All of that counts only when no former leader can send: it might change
// again.
func (t *transition) open(r uint8) bool {
	l := &t.replicas[r]
	if l.termOpened || l.waitBeforeOpening > 0 && t.Rules.Has(TermOpensAlone) || !t.mayAct(r) {
		return false
	}
	if t.Rules.Has(CacheBarrier) {
		l.cache = cache{task: t.store.task, pods: t.store.pods, linked: t.store.linked}
	}
	l.termOpened = true
	for n := range uint8(processes) {
		if t.mustAwait(r, n) {
			l.gates[n] = l.waitBeforeOpening + t.gateTimeout(r, n)
		}
		if stored := t.store.leases[agentOf(n)]; stored > t.Scenario.Leases[r] {
			l.longerLeaseTicks = max(l.longerLeaseTicks, stored+margin)
		}
	}
	for n := range uint8(processes) {
		l.links[n].timer = max(l.links[n].timer, t.leaseTimeout(r, n), t.assignmentTimeout(r, n))
	}
	t.observe(r)
	return true
}

// mustAwait reports whether a new leader waits for a process, because it is stored as linked, or for any process of the pod
// of the same number, which exists and of which none is stored.
func (t *transition) mustAwait(r, n uint8) bool {
	l := &t.replicas[r]
	if linked := l.cache.linked[agentOf(n)]; linked != 0 && t.Rules.Has(LinkedPodAwaited) {
		if linked == n+1 {
			return true
		}
		if t.processes[linked-1].pod == n {
			return false
		}
	}
	exists := l.cache.pods&bit(n) != 0
	if exists {
		l.anyProcess |= bit(n)
	}
	return exists
}

// isWriting reports whether a write of this term is in flight.
func (r *replica) isWriting() bool { return r.write.active && r.write.term == r.term }

func (t *transition) isGateOpen(r uint8) bool {
	l := &t.replicas[r]
	return l.waitBeforeOpening == 0 && l.gates == [processes]uint8{} || !t.Rules.Has(LeaderGate)
}

// observe reads the Task from the cache, and reports whether it was news. A stored assignment is assumed to be running until
// its agent, or time, proves otherwise.
func (t *transition) observe(r uint8) bool {
	l := &t.replicas[r]
	task, memory := l.cache.task, &l.memory
	switch {
	case !l.termOpened || task.version == 0 || memory.state == finished || l.isWriting():
		return false
	case task.isFinal():
		*memory = taskState{state: finished, epoch: task.epoch}
		return true
	case task.owner != 0 && (memory.state == unknown || task.epoch > memory.epoch):
		*memory = taskState{state: assigned, epoch: task.epoch, owner: task.owner - 1, written: true}
		return true
	case memory.state == unknown:
		*memory = taskState{state: waiting, epoch: task.epoch}
		return true
	}
	return false
}

// storeLink stores the linked process in the Agent's status. The next leader waits for that one, so the previous process
// stays there until it is certain to run nothing.
func (t *transition) storeLink(r, n uint8) bool {
	l, linkedProcess := &t.replicas[r], &t.store.linked[agentOf(n)]
	if !t.mayAct(r) || !l.termOpened || !l.links[n].open || *linkedProcess == n+1 {
		return false
	}
	if t.Rules.Has(LinkedPodKept) && *linkedProcess != 0 && !t.runsNothing(r, *linkedProcess-1) {
		return false
	}
	*linkedProcess = n + 1
	if lease := &t.store.leases[agentOf(n)]; *lease == 0 {
		*lease = t.Scenario.Leases[r] // it is the same write
	}
	t.syncCaches()
	return true
}

// runsNothing reports whether a leader can be certain that a process runs nothing.
func (t *transition) runsNothing(r, n uint8) bool {
	return t.replicas[r].links[n].timer == 0 || t.store.terminated&bit(n) != 0
}

// assignTask assigns the task to a linked process. Only a first assignment is sent before it is stored.
func (t *transition) assignTask(r, n uint8) bool {
	l := &t.replicas[r]
	waits := t.mayAct(r) && t.isGateOpen(r) && l.memory.state == waiting && !l.write.active && l.sequence < t.Scenario.Assignments
	if !waits || l.cache.task.cancel || !t.isAssignable(r, n) {
		return false
	}
	l.sequence++
	first := l.memory.epoch == 0
	l.memory = taskState{state: reserved, epoch: epochOf(l.term, l.sequence), owner: n}
	if first && !t.storesBeforeSending(r, n) {
		t.deliver(r)
		return true
	}
	return t.writeAssignment(r)
}

// stopAttempt orders the holder of a cancelled task to stop.
func (t *transition) stopAttempt(r uint8) bool {
	l := &t.replicas[r]
	down := &t.processes[l.memory.owner].current.toAgent
	if !t.mayAct(r) || l.memory.state != assigned || !l.cache.task.cancel || contains(down, cancel) {
		return false
	}
	t.send(r, l.memory.owner, message{kind: cancel, epoch: l.memory.epoch})
	return contains(down, cancel)
}

// isAssignable reports whether a process is linked, has reported everything, and is stored as linked.
func (t *transition) isAssignable(r, n uint8) bool {
	known := t.replicas[r].links[n]
	if t.Rules.Has(LinkStoredFirst) && t.store.linked[agentOf(n)] != n+1 {
		return false
	}
	return known.open && !known.partial && known.timer > 0
}

// deliver sends a reserved assignment.
func (t *transition) deliver(r uint8) {
	memory := &t.replicas[r].memory
	memory.state = assigned
	t.journal.history.RecordAssignment(memory.epoch)
	t.send(r, memory.owner, message{kind: assign, epoch: memory.epoch})
}

// expire gives up a process that was not heard for its lease and the margin: first the stream, then what it ran.
func (t *transition) expire(r, n uint8) bool {
	l := &t.replicas[r]
	isHolder := l.memory.state == assigned && l.memory.owner == n
	if !t.mayAct(r) || !l.termOpened || l.links[n].timer > 0 || !isHolder && !l.links[n].open {
		return false
	}
	l.links[n].open = false
	if isHolder {
		t.giveUp(r)
	}
	return true
}

// giveUpTerminated gives up what a process ran whose end is certain: its container status names it. A new leader no longer awaits such a
// process.
func (t *transition) giveUpTerminated(r uint8) bool {
	l := &t.replicas[r]
	if !t.mayAct(r) || !l.termOpened {
		return false
	}
	opened := t.openGatesOfTerminated(r)
	if l.memory.state != assigned {
		return opened
	}
	proven := t.store.terminated&bit(l.memory.owner) != 0
	if !t.Rules.Has(ProofOfDeath) {
		proven = proven || t.store.pods&bit(t.processes[l.memory.owner].pod) == 0
	}
	if proven {
		t.giveUp(r)
	}
	return proven || opened
}

func (t *transition) openGatesOfTerminated(r uint8) bool {
	opened := false
	for n := range uint8(processes) {
		if t.store.terminated&bit(n) != 0 {
			opened = t.openGate(r, n) || opened
		}
	}
	return opened
}

// openGate opens the gate that waits for a process, if there is one.
func (t *transition) openGate(r, n uint8) bool {
	l := &t.replicas[r]
	awaited := l.gates[n] > 0 && l.anyProcess&bit(n) == 0
	if awaited {
		l.gates[n] = 0
	}
	return awaited
}

// releaseLease is how a leader ends in order: it sends nothing more, and then gives the Lease back. It does not do so while a
// former leader may send: the next leader would take it for free.
func (t *transition) releaseLease(r uint8) bool {
	l := &t.replicas[r]
	if !l.leading || t.store.lease.holder != r+1 || t.store.lease.term != l.term || l.waitBeforeOpening > 0 && t.Rules.Has(ReleaseWhenAlone) {
		return false
	}
	t.store.lease.holder, t.store.lease.ticksLeft = 0, 0
	return t.resetReplica(r)
}

// resetReplica turns a replica into a standby with a new identity and fresh caches. Its connections break.
func (t *transition) resetReplica(r uint8) bool {
	l := &t.replicas[r]
	if !l.leading {
		return false
	}
	*l = replica{write: l.write, cache: cache{task: t.store.task, pods: t.store.pods, linked: t.store.linked}}
	for n := range t.processes {
		p := &t.processes[n]
		for _, c := range []*connection{&p.current, &p.former} {
			if c.replica == r+1 {
				c.broken, c.toReplica = true, [2]message{}
			}
		}
	}
	return true
}

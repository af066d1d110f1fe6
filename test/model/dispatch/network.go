package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// network has what a replica does with messages of agents. Messages of one connection arrive in order; those of a connection
// that the agent has abandoned may arrive at any time.
func (t *transition) network(r uint8) {
	for _, n := range t.acting {
		t.Step(receiveAtReplica, n, r, func() bool { return t.receiveMessage(r, n, &t.processes[n].current) })
		t.Step(receiveOnFormer, n, r, func() bool { return t.receiveMessage(r, n, &t.processes[n].former) })
		t.Step(echoEarly, n, r, func() bool { return t.echoEarly(r, n, &t.processes[n].current) })
	}
}

func (t *transition) receiveMessage(r, n uint8, conn *connection) bool {
	if conn.replica != r+1 || conn.broken || conn.toReplica[0].kind == noMessage || !t.mayAct(r) {
		return false
	}
	if conn.toReplica[0].kind == hello && t.welcomesEarly(r) {
		return t.welcomeEarly(r, n, conn)
	}
	if !t.replicas[r].termOpened {
		return false
	}
	m, number := pop(&conn.toReplica), conn.number
	if m.kind == hello {
		t.receiveHello(r, n, number, m)
		return true
	}
	if known := t.replicas[r].links[n]; known.open && known.connection == number {
		t.receiveOnStream(r, n, m)
	}
	return true
}

func (t *transition) receiveOnStream(r, n uint8, m message) {
	agentLink := &t.replicas[r].links[n]
	switch m.kind {
	case heldHello:
		t.processHello(r, n, m)
	case confirm:
		t.completeHello(r, n, m)
	case heartbeat:
		t.echo(r, n, m)
	case goodbye:
		agentLink.open = false
		t.openGate(r, n)
		if memory := t.replicas[r].memory; memory.state == assigned && memory.owner == n {
			t.giveUp(r)
		}
	case result:
		t.receiveResult(r, n, m.epoch, m.outcome)
		if m.partial {
			t.completeHello(r, n, message{ended: m.epoch})
		}
	}
}

// send sends to the newest connection that the leader knows of a process. Messages to an abandoned connection are lost.
func (t *transition) send(r, n uint8, m message) {
	c, known := &t.processes[n].current, t.replicas[r].links[n]
	if c.replica == r+1 && !c.broken && known.open && known.connection == c.number {
		push(&c.toAgent, m)
	}
}

// receiveHello accepts a connection. One that is not newer than the newest one of its process is refused.
func (t *transition) receiveHello(r, n, number uint8, m message) {
	known := &t.replicas[r].links[n]
	if t.Rules.Has(ConnectionOrder) && number <= known.connection {
		return
	}
	t.closeOtherStreams(r, n)
	t.sendWelcome(r, n, m, link{connection: number, open: true, partial: m.partial, sentLease: t.leaseToSend(r, n)})
	t.processHello(r, n, m)
}

// processHello is called when a leader learns the contents of a Hello.
func (t *transition) processHello(r, n uint8, m message) {
	agentLink := &t.replicas[r].links[n]
	t.resumeAttempt(r, n, m.epoch)
	if m.ended != 0 {
		t.receiveResult(r, n, m.ended, m.outcome)
	}
	switch {
	case t.confirmsHello():
		agentLink.partial = true
	case !m.partial || !t.Rules.Has(HelloComplete):
		t.completeHello(r, n, m)
	}
}

// sendWelcome answers a Hello on a new connection. Until the answer arrives, the process uses its previous lease.
func (t *transition) sendWelcome(r, n uint8, m message, newLink link) {
	newLink.timer = t.replicas[r].links[n].timer
	if t.Rules.Has(HelloLeaseCounts) {
		newLink.timer = max(newLink.timer, m.lease+margin)
	}
	t.replicas[r].links[n] = newLink
	t.sendLease(r, n, message{kind: welcome, age: m.age})
}

func (t *transition) echo(r, n uint8, m message) { t.sendLease(r, n, message{kind: echo, age: m.age}) }

// sendLease extends the lease of a process.
func (t *transition) sendLease(r, n uint8, m message) {
	l := &t.replicas[r]
	known := &l.links[n]
	known.timer, m.lease = max(known.timer, t.leaseTimeout(r, n)), known.sentLease
	if known.sentLease > t.Scenario.Leases[r] {
		l.longerLeaseTicks = max(l.longerLeaseTicks, known.sentLease+margin)
	}
	t.send(r, n, m)
}

// welcomesEarly reports whether a replica welcomes agents before it processes their Hello, which may be before its term is
// open. It does so when no other leader can send.
func (t *transition) welcomesEarly(r uint8) bool {
	return t.Scenario.WelcomesEarly && t.replicas[r].leading && t.replicas[r].waitBeforeOpening == 0
}

// welcomeEarly welcomes an agent. The contents of its Hello wait.
func (t *transition) welcomeEarly(r, n uint8, conn *connection) bool {
	known := &t.replicas[r].links[n]
	if t.Rules.Has(ConnectionOrder) && conn.number <= known.connection {
		pop(&conn.toReplica)
		return true
	}
	t.closeOtherStreams(r, n)
	m := conn.toReplica[0]
	conn.toReplica[0].kind, conn.toReplica[0].age, conn.toReplica[0].lease = heldHello, 0, 0
	t.sendWelcome(r, n, m, link{connection: conn.number, open: true, partial: true, sentLease: t.leaseBeforeTaskRead(r, n, m)})
	t.restartGate(r, n)
	return true
}

// echoEarly answers a heartbeat that came after a Hello that the leader has not processed.
func (t *transition) echoEarly(r, n uint8, conn *connection) bool {
	if conn.replica != r+1 || conn.broken || !t.mayAct(r) || conn.toReplica[0].kind != heldHello || conn.toReplica[1].kind != heartbeat {
		return false
	}
	m := conn.toReplica[1]
	conn.toReplica[1] = message{}
	if known := t.replicas[r].links[n]; known.open && known.connection == conn.number {
		t.echo(r, n, m)
		t.restartGate(r, n)
	}
	return true
}

// restartGate is for an agent whose lease was extended before the leader knows what it runs.
func (t *transition) restartGate(r, n uint8) {
	l := &t.replicas[r]
	for _, gate := range []uint8{n, t.processes[n].pod} {
		if l.gates[gate] > 0 && t.opensGate(r, n, gate) && t.Rules.Has(GateFromLastEcho) {
			l.gates[gate] = max(l.gates[gate], t.gateTimeout(r, n))
		}
	}
}

// closeOtherStreams ends the stream of another process of the same agent. That proves nothing about what the other one runs.
func (t *transition) closeOtherStreams(r, n uint8) {
	memory := &t.replicas[r].memory
	for process := range uint8(processes) {
		if process == n || agentOf(process) != agentOf(n) {
			continue
		}
		t.replicas[r].links[process].open = false
		if !t.Rules.Has(OtherHelloProvesNothing) && memory.state == assigned && memory.owner == process {
			t.giveUp(r)
		}
	}
}

// completeHello draws conclusions from attempts that a process did not name: it does not have them.
func (t *transition) completeHello(r, n uint8, m message) {
	memory := &t.replicas[r].memory
	for _, gate := range []uint8{n, t.processes[n].pod} {
		if t.opensGate(r, n, gate) {
			t.replicas[r].gates[gate] = 0
		}
	}
	t.replicas[r].links[n].partial = false
	if memory.state == assigned && memory.owner == n && m.epoch != memory.epoch && m.ended != memory.epoch {
		t.giveUp(r)
	}
}

// opensGate reports whether a process can answer for an awaited one: for itself, or for its pod if it is unknown which
// process of it was linked.
func (t *transition) opensGate(r, n, gate uint8) bool {
	ofPod := gate == t.processes[n].pod && (t.replicas[r].anyProcess&bit(gate) != 0 || !t.Rules.Has(LinkedProcessAwaited))
	return gate == n || ofPod
}

// resumeAttempt takes over an attempt that a process reports as running, unless the task was reassigned since.
func (t *transition) resumeAttempt(r, n uint8, e epoch) {
	memory := &t.replicas[r].memory
	switch {
	case e == 0 || memory.state == assigned && memory.epoch == e && memory.owner == n:
	case memory.state == unknown:
		// The task is not in the cache; a Hello about it is processed again when it is.
	case memory.state != finished && e > memory.epoch:
		*memory = taskState{state: assigned, epoch: e, owner: n}
	default:
		t.send(r, n, message{kind: cancel, epoch: e})
	}
}

// receiveResult accepts a result if it is of the attempt that counts. Any other is acknowledged, so that it is not sent again.
func (t *transition) receiveResult(r, n uint8, e epoch, outcome uint8) {
	memory := &t.replicas[r].memory
	switch {
	case memory.state == unknown && t.Rules.Has(CacheBarrier):
		// Nothing is refused because of a cache that may lag.
	case memory.state == ended && memory.epoch == e && (memory.outcome != lost || outcome != succeeded || t.replicas[r].write.active):
		// The end of the attempt is being stored. Until then the agent keeps the result, and sends it again.
	case t.replicas[r].awaitsResult(n, e, outcome, t.Rules):
		*memory = taskState{state: ended, epoch: max(e, memory.epoch), owner: n, outcome: outcome}
		if !t.Rules.Has(AcknowledgeAfterStore) {
			t.sendAcknowledge(r, n, e)
		}
	default:
		t.sendAcknowledge(r, n, e)
	}
}

// awaitsResult reports whether a result is of the attempt that counts: the one that is held; a newer one, which a former
// leader assigned and did not store; or one that was given up as lost, was not reassigned since, and has succeeded after all.
func (r *replica) awaitsResult(n uint8, e epoch, outcome uint8, rules explore.Rules) bool {
	memory := r.memory
	switch memory.state {
	case unknown, finished:
		return false
	case assigned:
		return memory.epoch == e && memory.owner == n || e > memory.epoch || !rules.Has(StaleResultRefused)
	case reserved:
		return e > memory.epoch
	}
	return e > memory.epoch || e == memory.epoch && outcome == succeeded
}

func (t *transition) sendAcknowledge(r, n uint8, e epoch) {
	t.send(r, n, message{kind: acknowledge, epoch: e})
	t.checkAcknowledged(e)
}

// giveUp records that an attempt ended without a result.
func (t *transition) giveUp(r uint8) {
	memory := &t.replicas[r].memory
	t.checkLost(memory.owner, memory.epoch)
	*memory = taskState{state: ended, epoch: memory.epoch, owner: memory.owner, outcome: lost}
}

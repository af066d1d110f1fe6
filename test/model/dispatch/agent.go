package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// agentSteps has the steps of a process by itself, and its handling of messages.
func (t *transition) agentSteps(n uint8) {
	if p := &t.processes[n]; !p.alive || p.suspended {
		return
	}
	t.Step(fence, n, 0, func() bool { return t.fence(&t.processes[n]) })
	t.Step(finishProgram, n, succeeded, func() bool { return !t.Scenario.Endless && t.processes[n].stop(succeeded) })
	failure := explore.Step{Action: finishProgram, Subject: n, Detail: failed}
	t.Fault(&t.remainingFaults.Failures, failure, func() bool { return t.processes[n].stop(failed) })
	for r := range uint8(replicas) {
		t.Step(dial, n, r, func() bool { return t.dial(&t.processes[n], r, false) })
		partial := explore.Step{Action: dialPartial, Subject: n, Detail: r}
		t.Fault(&t.remainingFaults.PartialHellos, partial, func() bool { return t.dial(&t.processes[n], r, true) })
	}
	t.Step(sendHeartbeat, n, 0, func() bool { return t.Scenario.Heartbeats && t.processes[n].send(message{kind: heartbeat}) })
	t.Step(sendResult, n, 0, func() bool { return t.processes[n].sendResult() })
	t.Fault(&t.remainingFaults.Goodbyes, explore.Step{Action: sayGoodbye, Subject: n}, func() bool { return t.sayGoodbye(n) })
	t.Step(receiveAtAgent, n, 0, func() bool { return t.receiveFromReplica(&t.processes[n]) })
}

// stop ends the program, with a result.
func (p *process) stop(outcome uint8) bool {
	if p.running == 0 {
		return false
	}
	p.running, p.ended, p.outcome = 0, p.running, outcome
	return true
}

// fence stops the program at the end of the lease.
func (t *transition) fence(p *process) bool {
	if !p.mustFence() {
		return false
	}
	p.stop(handedBack)
	t.dropExpiredStream(p)
	return true
}

// acceptsAgents reports whether agents can connect to a replica that leads, or believes so.
func (t *transition) acceptsAgents(r uint8) bool {
	return t.replicas[r].termOpened || t.Scenario.DialsAnyReplica || t.welcomesEarly(r)
}

// dial opens the next connection to a replica that accepts agents. Hello names everything that the process has.
func (t *transition) dial(p *process, to uint8, partial bool) bool {
	if !t.acceptsAgents(to) || p.current.number >= t.Scenario.Connections || partial && p.ended == 0 {
		return false
	}
	p.abandonConnection()
	greeting := message{kind: hello, epoch: p.running, ended: p.ended, outcome: p.outcome, lease: p.receivedLease}
	p.current = connection{number: p.current.number + 1, replica: to + 1}
	if !partial {
		return push(&p.current.toReplica, greeting)
	}
	greeting.ended, greeting.outcome, greeting.partial = 0, 0, true
	return push(&p.current.toReplica, greeting) && push(&p.current.toReplica,
		message{kind: result, epoch: p.ended, outcome: p.outcome, partial: true})
}

// send sends on the stream, once the operator has welcomed it.
func (p *process) send(m message) bool {
	welcomed := p.current.replica != 0 && !p.current.broken && !contains(&p.current.toReplica, hello) && !contains(&p.current.toAgent, welcome)
	return welcomed && !contains(&p.current.toReplica, m.kind) && push(&p.current.toReplica, m)
}

// sendResult may repeat until the result is acknowledged.
func (p *process) sendResult() bool {
	return p.ended != 0 && p.send(message{kind: result, epoch: p.ended, outcome: p.outcome})
}

// sayGoodbye sends the last message of a process. It proves that nothing runs, so everything was stopped and reaped before.
func (t *transition) sayGoodbye(n uint8) bool {
	p := &t.processes[n]
	if p.running != 0 && t.Rules.Has(GoodbyeAfterReaping) || !p.send(message{kind: goodbye}) {
		return false
	}
	return p.running != 0 || t.endProcess(n)
}

func (t *transition) receiveFromReplica(p *process) bool {
	if p.current.toAgent[0].kind == noMessage {
		return false
	}
	m := pop(&p.current.toAgent)
	switch m.kind {
	case welcome:
		t.extendLease(p, m)
		if t.confirmsHello() && p.current.replica != 0 {
			push(&p.current.toReplica, message{kind: confirm, epoch: p.running, ended: p.ended})
		}
	case echo:
		t.extendLease(p, m)
	case assign:
		t.startAttempt(p, m.epoch)
	case cancel:
		if p.running == m.epoch {
			p.stop(handedBack)
		}
	case acknowledge:
		if p.ended == m.epoch {
			p.ended, p.outcome = 0, 0
		}
	}
	return true
}

// extendLease counts from when the agent sent the message that was answered, not from when the answer arrived.
func (t *transition) extendLease(p *process, m message) {
	p.receivedLease = m.lease
	age := m.age
	if !t.Rules.Has(LeaseFromSending) {
		age = 0
	}
	if age >= m.lease {
		p.abandonConnection() // the answer came too late
		return
	}
	p.lease = max(p.lease, m.lease-age)
}

// startAttempt starts a program, or declines. There is one slot, and an unacknowledged result takes it.
func (t *transition) startAttempt(p *process, e epoch) {
	switch {
	case p.running != 0 || p.ended != 0:
	case p.lease == 0 && t.Rules.Has(StreamEndsWithLease):
		p.ended, p.outcome = e, handedBack
	default:
		p.running = e
		t.attemptStarts(e)
	}
}

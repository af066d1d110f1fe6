package dispatch

import (
	"cmp"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

// A Model is the protocol with some of its rules, in a scenario.
type Model struct {
	Rules    explore.Rules
	Scenario Scenario
	Watch    Invariant // the only invariant that is checked; 0: all
}

var _ explore.Model[state] = Model{}

// Actions. The subject of a step is a process or a replica, the detail the other one of the two where there is one.
const (
	tick uint8 = iota + 1
	tickWithoutRenewal
	deleteLease
	deleteAgent
	replacePod
	startProcess
	cancelTask
	endProcess
	restartContainer
	suspend
	resume
	fence
	finishProgram
	dial
	dialPartial
	sendHeartbeat
	sendResult
	sayGoodbye
	receiveAtAgent
	receiveAtReplica
	receiveOnFormer
	echoEarly
	elect
	takeOver
	openTerm
	observeTask
	storeLink
	storeLease
	assignTask
	storeAssignment
	storeEnd
	storeCancel
	stopAttempt
	expire
	giveUpTerminated
	crashLeader
	releaseLease
	recreateLease
	stopLeading
	applyWrite
	loseResponse
	dropWrite
	syncTask
	syncPods
	actionsEnd
)

// initial has replica 0 leading in term 1, mostly with both agents linked, and a waiting task.
func (m Model) initial() state {
	s := state{remainingFaults: m.Scenario.Faults}
	s.store = store{
		task: taskObject{version: 1}, lease: lease{holder: 1, term: 1, ticksLeft: leaseDuration}, termFloor: 1,
		pods: bit(0) | bit(1), linked: [2]uint8{1, 2},
	}
	storedLease := cmp.Or(m.Scenario.StoredLease, m.Scenario.Leases[0])
	s.store.leases = [2]uint8{storedLease, storedLease}
	if m.Scenario.LinksNotStored {
		s.store.linked = [2]uint8{}
	}
	current := cache{task: s.store.task, pods: s.store.pods, linked: s.store.linked}
	s.replicas[0] = replica{leading: true, term: 1, renewalTicks: renewDeadline, cache: current}
	s.replicas[1].cache = current
	if m.Scenario.StandbyBehind {
		s.replicas[1].cache = cache{pods: bit(0), linked: [2]uint8{1, 0}}
	}
	for p := range uint8(2) {
		s.processes[p] = process{alive: true, pod: p, receivedLease: m.Scenario.LeaseOver, current: connection{number: 1}}
	}
	if m.Scenario.LeaseOver == 0 {
		m.openFirstTerm(&s, storedLease)
	}
	if m.Scenario.TwoLeaders {
		m.takeDeletedLease(&s)
	}
	return s
}

// openFirstTerm opens the term of the first replica, with linked agents that have the stored lease.
func (m Model) openFirstTerm(s *state, agentLease uint8) {
	first := &s.replicas[0]
	first.termOpened, first.memory = true, taskState{state: waiting}
	if m.Scenario.Leases[0] < agentLease {
		first.longerLeaseTicks = agentLease + margin
	}
	timeout := agentLease + margin
	if !m.Rules.Has(LeaseStoredFirst) {
		agentLease = max(agentLease, m.Scenario.Leases[0])
	}
	for p := range uint8(2) {
		s.processes[p].lease, s.processes[p].receivedLease, s.processes[p].current.replica = agentLease, agentLease, 1
		first.links[p] = link{connection: 1, open: true, timer: timeout, sentLease: agentLease}
	}
}

// takeDeletedLease makes the second replica a leader while the first one still leads.
func (m Model) takeDeletedLease(s *state) {
	m.Scenario.WithinATick = false // time has passed before
	t := &transition{Model: m, state: *s}
	t.store.lease = lease{}
	t.takeLease(1)
	for range m.Scenario.TwoLeadersSince {
		t.tick(true)
	}
	if m.Scenario.DeletedAgain {
		t.deleteLease()
		t.recreateLease(0)
		t.tick(true)
	}
	t.canonicalize()
	*s = t.state
}

// confirmsHello reports whether a Hello counts only when the agent has answered the Welcome: it may have been sent to a
// replica that did not lead yet, by an agent that has connected to another leader since. Where agents dial leaders only, that
// step is omitted.
func (m Model) confirmsHello() bool { return m.Scenario.DialsAnyReplica && m.Rules.Has(HelloConfirmed) }

// Next emits every transition of the world, the agents, the replicas and the API server.
func (m Model) Next(s state, emit func(explore.Step, state)) {
	t := &transition{Model: m, state: s, acting: m.acting(&s)}
	t.Transition = explore.NewTransition(&t.state, t.canonicalize, emit)
	t.worldSteps()
	for _, p := range t.acting {
		t.agentSteps(p)
	}
	for r := range uint8(replicas) {
		t.network(r)
		t.replica(r)
	}
}

// A transition creates the states that follow one.
type transition struct {
	Model
	explore.Transition[state]
	acting []uint8 // the processes whose steps are taken

	state // the one that is being created
}

// canonicalize removes what no longer has any effect, so that states which differ only by that become one.
func (t *transition) canonicalize() {
	for n := range t.processes {
		p := &t.processes[n]
		if p.current.broken && p.current.toAgent[0].kind == noMessage {
			p.current = connection{number: p.current.number}
		}
		if p.current.replica == 0 {
			p.current.toReplica, p.current.toAgent, p.current.broken = [2]message{}, [2]message{}, false
		}
		p.former.toAgent = [2]message{}
		if !t.Scenario.WelcomesEarly && t.Scenario.Faults.AgentDeletions == 0 {
			p.receivedLease = 0 // the stored lease is not shorter
		}
		if t.isIgnored(uint8(n), &p.former) {
			p.former = connection{}
		}
	}
	for n := range t.replicas {
		t.forgetCaches(&t.replicas[n])
		for gate, left := range t.replicas[n].gates {
			if left == 0 {
				t.replicas[n].anyProcess &^= bit(uint8(gate))
			}
		}
	}
}

// isIgnored reports whether the rest of a connection that the agent has abandoned has no effect.
func (t *transition) isIgnored(n uint8, former *connection) bool {
	if former.replica == 0 || former.broken || former.toReplica[0].kind == noMessage {
		return true
	}
	known := t.replicas[former.replica-1].links[n]
	return former.toReplica[0].kind != hello && (former.number != known.connection || !known.open)
}

// forgetCaches clears caches that are not read before they are brought up to date: those of a standby, and those of pods and
// agents, which are read when a term begins.
func (t *transition) forgetCaches(r *replica) {
	if !t.Rules.Has(CacheBarrier) {
		return
	}
	if !r.termOpened {
		r.cache = cache{}
	}
	r.cache.pods, r.cache.linked = 0, [2]uint8{}
}

package handover

import "github.com/swarm-io/swarm-operator/test/model/explore"

// A Model is the protocol with some of its rules, in a scenario.
type Model struct {
	Rules    explore.Rules
	Scenario Scenario
}

var _ explore.Model[state] = Model{}

// Actions. The subject of a step is a pod, a worker or a replica.
const (
	plan uint8 = iota + 1
	changeLeader
	deletePod
	endPod
	admitPod
	createPod
	failCreate
	releasePod
	orphanPods
	adoptPod
	loseNode
	restartContainer
	syncFile
	loadFile
	stopJob
	syncCache
	beginTerm
	createConfigMap
	revoke
	grant
	applyWrite
	applyLateWrite
	loseLateWrite
	actionCount
)

// initial has the job on worker 0, which runs it, and replica 0 as leader.
func (m Model) initial() state {
	s := state{remainingFaults: m.Scenario.Faults, termBegun: true}
	first := list{version: 1, hasJob: true}
	s.config.versions[0] = 1
	s.config.records[0] = record{list: first, mayHold: true}
	s.previous[0] = first
	for n := range uint8(2) {
		s.pods[n] = pod{exists: true, selected: true, alive: true}
	}
	s.pods[0].file, s.pods[0].loadedVersion, s.pods[0].runsJob = first, 1, true
	for r := range s.caches {
		s.caches[r] = cache{config: s.config, pods: bit(0) | bit(1)}
	}
	return s
}

// Next emits every transition of pods and kubelets, of the replicas and of the API server.
func (m Model) Next(s state, emit func(explore.Step, state)) {
	t := &transition{Model: m, state: s}
	t.Transition = explore.NewTransition(&t.state, func() {}, emit)
	t.worldSteps()
	for n := range uint8(pods) {
		t.pod(n)
	}
	for r := range uint8(replicas) {
		t.Step(syncCache, r, 0, func() bool { return t.syncCache(r) })
	}
	t.replica()
	t.apiServerSteps()
}

// A transition creates the states that follow one.
type transition struct {
	Model
	explore.Transition[state]

	state // the one that is being created
}

// An Invariant is what must hold in every state.
type Invariant uint8

// The invariants, named by how they are broken.
const (
	TwoOwners Invariant = iota + 1
	VersionDecreases
)

var invariants = [...]string{TwoOwners: "two workers run the job", VersionDecreases: "the version of a list decreases"}

// Violation names the invariant that the last step has broken.
func (m Model) Violation(s state) string { return s.violation.String() }

func (i Invariant) String() string { return invariants[i] }

func (t *transition) checkOwners() {
	owners := 0
	for _, p := range t.pods {
		if p.alive && p.runsJob {
			owners++
		}
	}
	if owners > 1 {
		t.violation = TwoOwners
	}
}

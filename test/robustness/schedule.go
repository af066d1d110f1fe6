package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kinds of faults.
const (
	killAgent        = "kill-agent"         // SIGKILL; the container is started again
	suspendAgent     = "suspend-agent"      // SIGSTOP, and SIGCONT later
	cutLink          = "cut-link"           // nothing passes between an agent and the operators
	severLink        = "sever-link"         // the connections of an agent end
	slowLink         = "slow-link"          // everything between an agent and the operators is late
	loseMessages     = "lose-messages"      // what an operator sends to an agent is lost
	loseAnswers      = "lose-answers"       // the API server executes an operator's request, and the answer is lost
	killLeader       = "kill-leader"        // SIGKILL; started again
	suspendLeader    = "suspend-leader"     // SIGSTOP, and SIGCONT later
	stopLeader       = "stop-leader"        // SIGTERM; started again
	killAPIServer    = "kill-apiserver"     // SIGKILL; started again
	suspendAPIServer = "suspend-apiserver"  // SIGSTOP, and SIGCONT later
	deleteLease      = "delete-lease"       // of the leader election
	forceDeletePod   = "force-delete-pod"   // the process lives on for a while, as on a node that is cut off
	deletePod        = "delete-pod"         // in order
	relabelPod       = "relabel-pod"        // so that no controller finds it, and back
	deleteAgent      = "delete-agent"       // its object; the operator makes it again
	changeLease      = "change-lease"       // of an agent type, and back
	restartOperators = "restart-everything" // SIGKILL of all operators
)

// A faultMix is how often faults happen on average, and how many of each kind there are in a round.
type faultMix struct {
	pause    time.Duration
	calmTime time.Duration // is added to every pauses-th pause
	pauses   int
	weights  []weight
}

type weight struct {
	kind   string
	weight int
}

// Faults of one agent come in quick succession. What takes the leader away is rare, because a new one waits for agents that are out of
// reach: if there was never a leader, nothing else would be tested. Now and then it is long enough for agents with a long lease: if one of
// their pods goes while leaders change, each new one waits for that lease.
var (
	agentFaults = faultMix{pause: 900 * time.Millisecond, pauses: 1, weights: []weight{
		{killAgent, 14}, {suspendAgent, 12}, {cutLink, 14}, {severLink, 6}, {slowLink, 10}, {loseMessages, 10}, {loseAnswers, 8},
		{forceDeletePod, 6}, {deletePod, 3}, {relabelPod, 6}, {deleteAgent, 3}, {changeLease, 1},
	}}
	leaderFaults = faultMix{pause: 35 * time.Second, calmTime: longLease + 10*time.Second, pauses: 6, weights: []weight{
		{killLeader, 1}, {suspendLeader, 1}, {stopLeader, 1}, {killAPIServer, 1}, {suspendAPIServer, 1}, {deleteLease, 1}, {restartOperators, 1},
	}}
)

// faultKinds are all that a run lets happen.
func faultKinds() (kinds []string) {
	for _, one := range slices.Concat(agentFaults.weights, leaderFaults.weights) {
		kinds = append(kinds, one.kind)
	}
	return kinds
}

// A fault is its kind, its target and its duration.
type fault struct {
	kind     string
	after    time.Duration // the fault before
	agent    int           // by its ordinal, if it is about one, or about its type
	duration time.Duration
	report   bool // the kubelet reports the end of a process before it starts the next; a relabelled pod loses the swarm's label
}

func (f fault) String() string {
	return fmt.Sprintf("%s agent=%d for=%s report=%t", f.kind, f.agent, f.duration.Round(time.Millisecond), f.report)
}

// A schedule is an endless sequence of faults. The same seed gives the same sequence.
type schedule struct {
	faultMix
	random *rand.Rand
	agents int
	count  int      // of faults so far
	round  []string // kinds that are left of it
}

func newSchedule(seed uint64, faults faultMix, agents int) *schedule {
	return &schedule{faultMix: faults, random: rand.New(rand.NewPCG(seed, uint64(faults.pause))), agents: agents}
}

func (s *schedule) next() fault {
	after := time.Duration(s.random.Int64N(int64(2 * s.pause)))
	if s.count++; s.count%s.pauses == 0 {
		after += s.calmTime
	}
	return fault{
		kind: s.kind(), after: after,
		agent: s.random.IntN(s.agents), duration: s.duration(), report: s.random.IntN(2) == 0,
	}
}

// kind takes the kinds of each round in random order. So even a rare one comes soon.
func (s *schedule) kind() string {
	if len(s.round) == 0 {
		for _, one := range s.weights {
			s.round = append(s.round, slices.Repeat([]string{one.kind}, one.weight)...)
		}
		s.random.Shuffle(len(s.round), func(a, b int) { s.round[a], s.round[b] = s.round[b], s.round[a] })
	}
	kind := s.round[0]
	s.round = s.round[1:]
	return kind
}

// duration is mostly short. The others are near the end of an agent's lease, before and after it, where mistakes would show.
func (s *schedule) duration() time.Duration {
	short := 100*time.Millisecond + time.Duration(s.random.Int64N(int64(4*time.Second)))
	long := agentLease/2 + time.Duration(s.random.Int64N(int64(agentLease)))
	if s.random.IntN(3) > 0 {
		return short
	}
	return long
}

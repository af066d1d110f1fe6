package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// The rules, in the order of docs/explanation/model.md.
const (
	LeaseFromSending explore.Rule = iota
	LeaseMargin
	FenceCannotBeBlocked
	ClockCountsSuspension
	StreamEndsWithLease
	ProofOfDeath
	OtherHelloProvesNothing
	GoodbyeAfterReaping
	ConnectionOrder
	HelloComplete
	HelloConfirmed
	LinkedPodAwaited
	LinkedProcessAwaited
	LinkStoredFirst
	LinkedPodKept
	LeaderGate
	FormerLeaderWaitedOut
	TermOpensAlone
	ReleaseWhenAlone
	LeaderFreshness
	CacheBarrier
	TermOutsideLease
	StoredLeaseCounts
	LeaseStoredFirst
	LeaseLoweredLate
	ResourceVersion
	FinishedRemembered
	EndCountedOnce
	AcknowledgeAfterStore
	LongLeaseStoredFirst
	LongLeaseToldLate
	GateFromLastEcho
	RecreateUnchallenged
	StaleResultRefused
	UnstoredResultAfterGate
	FinalAfterGate
	DisownedWhenContested
	EarlyLeaseStoresFirst
	LeaseWithAssignment
	MinuteForUnknownPods
	HelloLeaseCounts
	ruleCount
)

// A Scenario defines which faults may happen, and how often. Other faults cannot happen, so a search gets deeper.
type Scenario struct {
	Name   string
	Faults Faults
	// Connections that a process may open, including the first one; assignments per term; terms.
	Connections, Assignments, Terms uint8
	// Whether caches lag, writes arrive late, and agents send heartbeats.
	CachesLag, WritesLag, Heartbeats bool
	// Whether the caches of the standby do not contain the task and agent b yet.
	StandbyBehind bool
	// Whether programs run until they are stopped, and whether everything happens within one tick, so that no lease ends.
	Endless, WithinATick bool
	// Whether the Lease was deleted, and taken by the other replica, just before, or as many ticks ago.
	TwoLeaders      bool
	TwoLeadersSince uint8
	// Whether the Lease was then deleted again a tick ago, and the former leader was the first to look for it.
	DeletedAgain bool
	// Whether agents dial any replica, as they do through a Service, and not only leaders.
	DialsAnyReplica bool
	// Whether the operator has not yet stored which processes are linked.
	LinksNotStored bool
	// The agents' lease as configured in each replica, in ticks, and the initially stored one; 0: that of the first replica.
	Leases      [replicas]uint8
	StoredLease uint8
	// The last lease of the agents, which is over, while the first replica is about to open its term; 0: agents are linked.
	LeaseOver uint8
	// Whether a leader welcomes agents, and answers their heartbeats, before it processes their Hello.
	WelcomesEarly bool
	// The longest lease that a new leader waits for before it assigns work; 0: any.
	LongestGate uint8
}

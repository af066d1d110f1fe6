package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// Scenarios in which each rule is needed. They are small, so that a search gets deep; Everything has all faults at once.
var (
	SlowNetwork = Scenario{
		Name: "slow network", Connections: 1, Assignments: 2, Terms: 1, Leases: [2]uint8{2, 2}, Heartbeats: true,
	}
	Reconnects = Scenario{
		Name: "reconnects", Faults: Faults{PartialHellos: 1}, Connections: 3, Assignments: 2, Terms: 1, Leases: [2]uint8{1, 1},
	}
	Suspension = Scenario{
		Name: "suspension", Faults: Faults{Suspensions: 1}, Connections: 2, Assignments: 2, Terms: 1, Leases: [2]uint8{2, 2},
	}
	PodReplaced = Scenario{
		Name: "pod replaced", Faults: Faults{PodReplacements: 1, ProcessEnds: 1},
		Connections: 2, Assignments: 2, Terms: 1, Leases: [2]uint8{1, 1},
	}
	AgentStops = Scenario{
		Name: "agent stops", Faults: Faults{ProcessEnds: 1, Goodbyes: 1}, Connections: 2, Assignments: 2, Terms: 1, Leases: [2]uint8{1, 1},
	}
	LeaderReplaced = Scenario{
		Name: "pod and leader replaced", Faults: Faults{PodReplacements: 1, LeaderReleases: 1}, Endless: true,
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	LeaderReplacedAtOnce = Scenario{
		Name: "pod and leader replaced at once", Faults: Faults{PodReplacements: 1, LeaderReleases: 1}, Endless: true, WithinATick: true,
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	LinksNotStored = Scenario{
		Name: "links not stored", Faults: Faults{PodReplacements: 1, LeaderReleases: 1}, Endless: true, WithinATick: true, LinksNotStored: true,
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	LeaderLost = Scenario{
		Name: "leader lost", Faults: Faults{LeaderCrashes: 1}, Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{3, 3},
	}
	LeaderCutOff = Scenario{
		Name: "leader cut off", Faults: Faults{Outages: 3}, Endless: true, Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{2, 2},
	}
	LeaseDeleted = Scenario{
		Name: "Lease deleted", Faults: Faults{LeaseDeletions: 1}, Endless: true, Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	AgentsGoBack = Scenario{
		Name: "Lease deleted, agents go back", TwoLeaders: true, Endless: true,
		Connections: 3, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	ReleasedTooSoon = Scenario{
		Name: "Lease deleted, and released", Faults: Faults{LeaseDeletions: 1, LeaderReleases: 1},
		Connections: 2, Assignments: 1, Terms: 3, Leases: [2]uint8{1, 1},
	}
	StaleHello = Scenario{
		Name: "stale Hello", Faults: Faults{LeaderReleases: 1}, DialsAnyReplica: true, Endless: true, WithinATick: true,
		Connections: 3, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	TwoLeaderChanges = Scenario{
		Name: "two leader changes", Faults: Faults{LeaderReleases: 2}, Connections: 2, Assignments: 1, Terms: 3, Leases: [2]uint8{1, 1},
	}
	Retries = Scenario{
		Name: "retries", Faults: Faults{Failures: 3}, Connections: 1, Assignments: 3, Terms: 1, Leases: [2]uint8{1, 1},
	}
	LeaseShorter = Scenario{
		Name: "shorter lease", Faults: Faults{LeaderReleases: 1}, Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{2, 1},
	}
	LongLease = Scenario{
		Name: "long lease", Faults: Faults{LeaderReleases: 1}, Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{3, 3}, LongestGate: 1,
	}
	StaleCaches = Scenario{
		Name: "stale caches", Faults: Faults{LeaderReleases: 1}, CachesLag: true, StandbyBehind: true,
		Connections: 2, Assignments: 2, Terms: 2, Leases: [2]uint8{1, 1},
	}
	LateWrites = Scenario{
		Name: "late writes", Faults: Faults{LeaderReleases: 1, LostAnswers: 1, Failures: 3}, WritesLag: true, CachesLag: true,
		Connections: 2, Assignments: 3, Terms: 2, Leases: [2]uint8{1, 1},
	}
	Everything = Scenario{
		Name: "everything",
		Faults: Faults{
			ProcessEnds: 1, PodReplacements: 1, LeaderCrashes: 1, LeaderReleases: 1, LeaseDeletions: 1, Outages: 1, LostAnswers: 1, Suspensions: 1,
			PartialHellos: 1, Failures: 3, Goodbyes: 1,
		},
		Connections: 3, Assignments: 3, Terms: 3, CachesLag: true, WritesLag: true, Heartbeats: true, Leases: [2]uint8{2, 2},
	}
)

// Scenarios is all of them.
var Scenarios = []Scenario{
	SlowNetwork, Reconnects, Suspension, PodReplaced, AgentStops, LeaderReplaced, LeaderReplacedAtOnce, LinksNotStored,
	LeaderLost, LeaderCutOff, LeaseDeleted, AgentsGoBack, ReleasedTooSoon, StaleHello, TwoLeaderChanges, Retries,
	LeaseShorter, LongLease, StaleCaches, LateWrites, Everything,
}

// Removals has an entry for each rule; two where a rule keeps two invariants.
var Removals = []explore.Removal[Scenario]{
	{LeaseFromSending, "LeaseFromSending", "", SlowNetwork, TwoOwners},
	{LeaseMargin, "LeaseMargin", "", SlowNetwork, TwoOwners},
	{FenceCannotBeBlocked, "FenceCannotBeBlocked", "F3", SlowNetwork, TwoOwners},
	{ClockCountsSuspension, "ClockCountsSuspension", "F9", Suspension, TwoOwners},
	{StreamEndsWithLease, "StreamEndsWithLease", "", SlowNetwork, TwoOwners},
	{ProofOfDeath, "ProofOfDeath", "", PodReplaced, TwoOwners},
	{OtherHelloProvesNothing, "OtherHelloProvesNothing", "", PodReplaced, TwoOwners},
	{GoodbyeAfterReaping, "GoodbyeAfterReaping", "", AgentStops, TwoOwners},
	{ConnectionOrder, "ConnectionOrder", "F4", Reconnects, TwoOwners},
	{HelloComplete, "HelloComplete", "F14", Reconnects, ResultGivenUp},
	{HelloConfirmed, "HelloConfirmed", "", StaleHello, TwoOwners},
	{LinkedPodAwaited, "LinkedPodAwaited", "F12", LeaderReplacedAtOnce, TwoOwners},
	{LinkStoredFirst, "LinkStoredFirst", "", LinksNotStored, TwoOwners},
	{LinkedPodKept, "LinkedPodKept", "F12", LeaderReplacedAtOnce, TwoOwners},
	{LeaderGate, "LeaderGate", "", LeaderLost, TwoOwners},
	{FormerLeaderWaitedOut, "FormerLeaderWaitedOut", "F10", LeaseDeleted, TwoOwners},
	{TermOpensAlone, "TermOpensAlone", "F10", AgentsGoBack, TwoOwners},
	{ReleaseWhenAlone, "ReleaseWhenAlone", "F10", ReleasedTooSoon, ResultGivenUp},
	{LeaderFreshness, "LeaderFreshness", "", LeaseDeleted, TwoOwners},
	{CacheBarrier, "CacheBarrier", "F8", StaleCaches, TwoOwners},
	{CacheBarrier, "CacheBarrier", "F8", StaleCaches, AcknowledgedNotStored},
	{TermOutsideLease, "TermOutsideLease", "F10", LeaseDeleted, EpochNotNewer},
	{LongestLeaseCounts, "LongestLeaseCounts", "F11", LeaseShorter, TwoOwners},
	{LongLeaseStoredFirst, "LongLeaseStoredFirst", "", LongLease, TwoOwners},
	{ResourceVersion, "ResourceVersion", "", LateWrites, EpochDecreased},
	{FinishedRemembered, "FinishedRemembered", "F5", StaleCaches, StartAfterFinal},
	{EndCountedOnce, "EndCountedOnce", "F13", LateWrites, CounterWrong},
	{AcknowledgeAfterStore, "AcknowledgeAfterStore", "", LateWrites, AcknowledgedNotStored},
	{StaleResultRefused, "StaleResultRefused", "", Retries, TwoOwners},
	{UnstoredResultAfterGate, "UnstoredResultAfterGate", "", TwoLeaderChanges, StartAfterFinal},
}

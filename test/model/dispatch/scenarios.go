package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// Scenarios in which each rule is needed. They are small, so that a search gets deep; Everything has all faults at once,
// except deleted Agent objects: with other faults, information that only they had is lost.
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
	TwoProcesses = Scenario{
		Name: "two processes of a pod", Faults: Faults{SecondProcesses: 1, LeaderReleases: 1}, Endless: true, WithinATick: true,
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
		Name: "Lease deleted, agents go back", TwoLeaders: true, TwoLeadersSince: 1, Endless: true,
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
	LeaseLonger = Scenario{
		Name: "longer lease", Faults: Faults{LeaderReleases: 1}, Endless: true, Connections: 2, Assignments: 1, Terms: 2,
		Leases: [2]uint8{2, 2}, StoredLease: 1,
	}
	LeaseLowered = Scenario{
		Name: "lease lowered", Faults: Faults{LeaderReleases: 1}, Endless: true, Connections: 2, Assignments: 1, Terms: 2,
		Leases: [2]uint8{1, 1}, StoredLease: 2,
	}
	LeaseAboveGate = Scenario{
		Name: "lease above the gate", Faults: Faults{LeaderReleases: 1}, Endless: true, Connections: 2, Assignments: 1, Terms: 2,
		Leases: [2]uint8{2, 2}, StoredLease: 1, LongestGate: 1,
	}
	WelcomedEarly = Scenario{
		Name: "welcomed early", Faults: Faults{LeaderReleases: 1}, Endless: true, WelcomesEarly: true,
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{2, 2},
	}
	LeaseSentAgain = Scenario{
		Name: "lease told again", LeaseOver: 4, Faults: Faults{LeaderReleases: 1}, Endless: true, WelcomesEarly: true,
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	EchoedEarly = Scenario{
		Name: "heartbeats answered early", Faults: Faults{LeaderReleases: 1}, Endless: true, WelcomesEarly: true, Heartbeats: true,
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{2, 2},
	}
	LeaseRecreated = Scenario{
		Name: "Lease created again", TwoLeaders: true, TwoLeadersSince: 1, Faults: Faults{LeaseDeletions: 1}, Endless: true,
		Connections: 3, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	LeaseRecreatedBefore = Scenario{
		Name: "Lease created again before", TwoLeaders: true, TwoLeadersSince: 1, DeletedAgain: true, Endless: true, WithinATick: true,
		Connections: 3, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	AgentDeleted = Scenario{
		Name: "Agent deleted", Faults: Faults{AgentDeletions: 1, LeaderReleases: 1}, Endless: true,
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{3, 1}, LongestGate: 3,
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
	Cancelled = Scenario{
		Name: "task cancelled", Faults: Faults{Cancels: 1, LeaderReleases: 1},
		Connections: 2, Assignments: 1, Terms: 2, Leases: [2]uint8{1, 1},
	}
	Everything = Scenario{
		Name: "everything",
		Faults: Faults{
			ProcessEnds: 1, PodReplacements: 1, SecondProcesses: 1, LeaderCrashes: 1, LeaderReleases: 1, LeaseDeletions: 1, Outages: 1,
			LostAnswers: 1,
			Suspensions: 1, PartialHellos: 1, Failures: 3, Goodbyes: 1, Cancels: 1,
		},
		Connections: 3, Assignments: 3, Terms: 3, CachesLag: true, WritesLag: true, Heartbeats: true, Leases: [2]uint8{2, 2},
	}
)

// Scenarios returns all of them.
var Scenarios = []Scenario{
	SlowNetwork, Reconnects, Suspension, PodReplaced, AgentStops, LeaderReplaced, LeaderReplacedAtOnce, TwoProcesses, LinksNotStored,
	LeaderLost, LeaderCutOff, LeaseDeleted, AgentsGoBack, ReleasedTooSoon, StaleHello, TwoLeaderChanges, Retries,
	LeaseShorter, LeaseLonger, LeaseLowered, LeaseAboveGate, AgentDeleted, LongLease, WelcomedEarly, LeaseSentAgain, EchoedEarly,
	LeaseRecreated, LeaseRecreatedBefore, LeaderRestarted, StaleCaches, LateWrites, Cancelled, Everything,
}

// Removals has an entry for each rule; two where a rule maintains two invariants.
var Removals = []explore.Removal[Scenario]{
	explore.NewRemoval(LeaseFromSending, "LeaseFromSending", "", SlowNetwork, TwoOwners),
	explore.NewRemoval(LeaseMargin, "LeaseMargin", "", SlowNetwork, TwoOwners),
	explore.NewRemoval(FenceCannotBeBlocked, "FenceCannotBeBlocked", "F3", SlowNetwork, TwoOwners),
	explore.NewRemoval(ClockCountsSuspension, "ClockCountsSuspension", "F9", Suspension, TwoOwners),
	explore.NewRemoval(StreamEndsWithLease, "StreamEndsWithLease", "", SlowNetwork, TwoOwners),
	explore.NewRemoval(ProofOfDeath, "ProofOfDeath", "", PodReplaced, TwoOwners),
	explore.NewRemoval(OtherHelloProvesNothing, "OtherHelloProvesNothing", "", PodReplaced, TwoOwners),
	explore.NewRemoval(GoodbyeAfterReaping, "GoodbyeAfterReaping", "", AgentStops, TwoOwners),
	explore.NewRemoval(ConnectionOrder, "ConnectionOrder", "F4", Reconnects, TwoOwners),
	explore.NewRemoval(HelloComplete, "HelloComplete", "F14", Reconnects, ResultLost),
	explore.NewRemoval(HelloConfirmed, "HelloConfirmed", "", StaleHello, TwoOwners),
	explore.NewRemoval(LinkedPodAwaited, "LinkedPodAwaited", "F12", LeaderReplacedAtOnce, TwoOwners),
	explore.NewRemoval(LinkedProcessAwaited, "LinkedProcessAwaited", "", TwoProcesses, TwoOwners),
	explore.NewRemoval(LinkStoredFirst, "LinkStoredFirst", "", LinksNotStored, TwoOwners),
	explore.NewRemoval(LinkedPodKept, "LinkedPodKept", "F12", LeaderReplacedAtOnce, TwoOwners),
	explore.NewRemoval(LeaderGate, "LeaderGate", "", LeaderLost, TwoOwners),
	explore.NewRemoval(FormerLeaderWaitedOut, "FormerLeaderWaitedOut", "F10", LeaseDeleted, TwoOwners),
	explore.NewRemoval(TermOpensAlone, "TermOpensAlone", "F10", AgentsGoBack, TwoOwners),
	explore.NewRemoval(ReleaseWhenAlone, "ReleaseWhenAlone", "F10", ReleasedTooSoon, ResultLost),
	explore.NewRemoval(LeaderFreshness, "LeaderFreshness", "", LeaseDeleted, TwoOwners),
	explore.NewRemoval(CacheBarrier, "CacheBarrier", "F8", StaleCaches, TwoOwners),
	explore.NewRemoval(CacheBarrier, "CacheBarrier", "F8", StaleCaches, AcknowledgedNotStored),
	explore.NewRemoval(TermOutsideLease, "TermOutsideLease", "F10", LeaseDeleted, EpochNotNewer),
	explore.NewRemoval(StoredLeaseCounts, "StoredLeaseCounts", "F11", LeaseShorter, TwoOwners),
	explore.NewRemoval(LeaseStoredFirst, "LeaseStoredFirst", "F11", LeaseLonger, TwoOwners),
	explore.NewRemoval(LeaseLoweredLate, "LeaseLoweredLate", "F11", LeaseLowered, TwoOwners),
	explore.NewRemoval(LongLeaseStoredFirst, "LongLeaseStoredFirst", "", LongLease, TwoOwners),
	explore.NewRemoval(LongLeaseToldLate, "LongLeaseToldLate", "", LeaseAboveGate, TwoOwners),
	explore.NewRemoval(EarlyLeaseStoresFirst, "EarlyLeaseStoresFirst", "", LeaseSentAgain, TwoOwners),
	explore.NewRemoval(LeaseWithAssignment, "LeaseWithAssignment", "", LeaseSentAgain, TwoOwners),
	explore.NewRemoval(HelloLeaseCounts, "HelloLeaseCounts", "", AgentDeleted, TwoOwners),
	explore.NewRemoval(MinuteForUnknownPods, "MinuteForUnknownPods", "", AgentDeleted, TwoOwners),
	explore.NewRemoval(GateFromLastEcho, "GateFromLastEcho", "", WelcomedEarly, TwoOwners),
	explore.NewRemoval(RecreateUnchallenged, "RecreateUnchallenged", "F10", LeaseRecreatedBefore, TwoOwners),
	explore.NewRemoval(ResourceVersion, "ResourceVersion", "", LateWrites, EpochDecreased),
	explore.NewRemoval(FinishedRemembered, "FinishedRemembered", "F5", StaleCaches, StartAfterFinal),
	explore.NewRemoval(EndCountedOnce, "EndCountedOnce", "F13", LateWrites, CounterWrong),
	explore.NewRemoval(AcknowledgeAfterStore, "AcknowledgeAfterStore", "", LateWrites, AcknowledgedNotStored),
	explore.NewRemoval(StaleResultRefused, "StaleResultRefused", "", Retries, TwoOwners),
	explore.NewRemoval(UnstoredResultAfterGate, "UnstoredResultAfterGate", "", TwoLeaderChanges, StartAfterFinal),
	explore.NewRemoval(FinalAfterGate, "FinalAfterGate", "", Cancelled, StartAfterFinal),
	explore.NewRemoval(DisownedWhenContested, "DisownedWhenContested", "", LeaderRestarted, TwoOwners),
}

package handover

import "github.com/swarm-io/swarm-operator/test/model/explore"

// Scenarios in which each rule is needed.
var (
	Shared = Scenario{Name: "Shared", Faults: Faults{Plans: 3, LeaderChanges: 2, ContainerRestarts: 1}, CachesLag: true}
	// Replaced has pods of a StatefulSet that are replaced under the same name.
	Replaced = Scenario{Name: "StatefulSet", Faults: Faults{Plans: 3, Deletions: 2}, CachesLag: true}
	Released = Scenario{Name: "released pod", Faults: Faults{Plans: 3, Releases: 1, Deletions: 1}, Deployment: true, CachesLag: true}
	Orphaned = Scenario{Name: "orphaned pods", Faults: Faults{Plans: 3, Orphanings: 1, Deletions: 1}, CachesLag: true}
	LostNode = Scenario{Name: "lost node", Faults: Faults{Plans: 3, LostNodes: 1, Deletions: 1}, CachesLag: true}
	// PerWorker has several ConfigMaps, so that the version of one does not guard another.
	PerWorker           = Scenario{Name: "PerWorker", Faults: Faults{Plans: 3, LeaderChanges: 1}, PerWorker: true, CachesLag: true}
	PerWorkerDeployment = Scenario{
		Name: "PerWorker, Deployment", Faults: Faults{Plans: 2, LeaderChanges: 1, Deletions: 1, Releases: 1},
		PerWorker: true, Deployment: true, CachesLag: true,
	}
	Everything = Scenario{
		Name:   "everything, StatefulSet",
		Faults: Faults{Plans: 3, LeaderChanges: 2, Deletions: 2, Releases: 1, Orphanings: 1, LostNodes: 1, ContainerRestarts: 1}, CachesLag: true,
	}
	EverythingPerWorker = Scenario{
		Name:      "everything, Deployment, PerWorker",
		Faults:    Faults{Plans: 3, LeaderChanges: 2, Deletions: 2, Releases: 1, Orphanings: 1, LostNodes: 1, ContainerRestarts: 1},
		PerWorker: true, Deployment: true, CachesLag: true,
	}
)

// Scenarios returns all of them.
var Scenarios = []Scenario{
	Shared, Replaced, Released, Orphaned, LostNode, PerWorker, PerWorkerDeployment, Everything, EverythingPerWorker,
}

// Removals has an entry for each rule; more where a rule is needed in several scenarios.
var Removals = []explore.Removal[Scenario]{
	explore.NewRemoval(RevokeBeforeGrant, "RevokeBeforeGrant", "", Shared, TwoOwners),
	explore.NewRemoval(LedgerStoredWithLists, "LedgerStoredWithLists", "", Shared, TwoOwners),
	explore.NewRemoval(AcknowledgedLaterList, "AcknowledgedLaterList", "", Shared, TwoOwners),
	explore.NewRemoval(StopBeforeAcknowledge, "StopBeforeAcknowledge", "", Shared, TwoOwners),
	explore.NewRemoval(RestartReleasesNothing, "RestartReleasesNothing", "", Shared, TwoOwners),
	explore.NewRemoval(AbsenceReadAfterRevoke, "AbsenceReadAfterRevoke", "", Replaced, TwoOwners),
	explore.NewRemoval(GoneByName, "GoneByName", "F7", Released, TwoOwners),
	explore.NewRemoval(GoneByName, "GoneByName", "F7", Orphaned, TwoOwners),
	explore.NewRemoval(GonePastCache, "GonePastCache", "F7", Replaced, TwoOwners),
	explore.NewRemoval(PhaseProvesNothing, "PhaseProvesNothing", "F7", LostNode, TwoOwners),
	explore.NewRemoval(NewPodFloor, "NewPodFloor", "F23", Replaced, TwoOwners),
	explore.NewRemoval(FloorPastCache, "FloorPastCache", "F23", Replaced, TwoOwners),
	explore.NewRemoval(CreatesAwaited, "CreatesAwaited", "", Replaced, TwoOwners),
	explore.NewRemoval(UpdateNamesVersion, "UpdateNamesVersion", "", Shared, VersionDecreases),
	explore.NewRemoval(TermStamped, "TermStamped", "", PerWorker, TwoOwners),
	explore.NewRemoval(CreatedEmpty, "CreatedEmpty", "F23", PerWorker, TwoOwners),
	explore.NewRemoval(CurrentCaches, "CurrentCaches", "F23", PerWorker, TwoOwners),
}

package handover

import "github.com/swarm-io/swarm-operator/test/model/explore"

// The rules, in the order of docs/explanation/model.md.
const (
	RevokeBeforeGrant explore.Rule = iota
	LedgerStoredWithLists
	AcknowledgedLaterList
	StopBeforeAcknowledge
	RestartReleasesNothing
	AbsenceReadAfterRevoke
	GoneByName
	GonePastCache
	PhaseProvesNothing
	NewPodFloor
	FloorPastCache
	CreatesAwaited
	UpdateNamesVersion
	TermStamped
	CreatedEmpty
	CurrentCaches
	ruleCount
)

// A Scenario defines what may happen, and how often.
type Scenario struct {
	Name   string
	Faults Faults
	// Deployment: each pod has its own name. Otherwise the workload is a StatefulSet.
	Deployment bool
	// PerWorker: each worker has its own ConfigMap. Otherwise all share one.
	PerWorker bool
	// CachesLag: replicas learn late about changes in the API server.
	CachesLag bool
}

// workerOf returns the name under which a pod finds its list.
func (s Scenario) workerOf(pod uint8) uint8 {
	if pod == 2 && !s.Deployment {
		return 0
	}
	return pod
}

// objectOf returns the ConfigMap with the list of a worker.
func (s Scenario) objectOf(worker uint8) uint8 {
	if s.PerWorker {
		return worker
	}
	return 0
}

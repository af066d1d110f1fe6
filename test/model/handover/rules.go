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

// A Scenario says what may happen, and how often.
type Scenario struct {
	Name   string
	Faults Faults
	// Deployment: pods have names of their own. Else the workload is a StatefulSet.
	Deployment bool
	// PerWorker: each worker has a ConfigMap of its own. Else all share one.
	PerWorker bool
	// CachesLag: replicas hear late of what the API server holds.
	CachesLag bool
}

// workerOf is the name under which a pod finds its list.
func (s Scenario) workerOf(pod uint8) uint8 {
	if pod == 2 && !s.Deployment {
		return 0
	}
	return pod
}

// objectOf is the ConfigMap that has the list of a worker.
func (s Scenario) objectOf(worker uint8) uint8 {
	if s.PerWorker {
		return worker
	}
	return 0
}

package handover

// A Rule is a part of the protocol that can be left out, to see what it is good for.
type Rule uint8

// The rules, in the order of docs/explanation/model.md.
const (
	RevokeBeforeGrant Rule = iota
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
	UpdateNamesVersion
	TermStamped
	CreatedEmpty
	CurrentCaches
	ruleCount
)

// Rules is the set of rules that hold.
type Rules uint32

// AllRules is the whole protocol.
const AllRules Rules = 1<<ruleCount - 1

// Without is the set without one rule.
func (r Rules) Without(rule Rule) Rules { return r &^ (1 << rule) }

func (r Rules) has(rule Rule) bool { return r&(1<<rule) != 0 }

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

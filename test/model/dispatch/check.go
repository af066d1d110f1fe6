package dispatch

import "math/bits"

// An Invariant is what must hold in every state.
type Invariant uint8

// The invariants, named by how they are broken.
const (
	TwoOwners Invariant = iota + 1
	EpochNotNewer
	StartAfterFinal
	AcknowledgedNotStored
	ResultGivenUp
	CounterWrong
	EpochDecreased
)

var invariants = [...]string{
	TwoOwners:             "two owners",
	EpochNotNewer:         "an attempt starts with an epoch that is not newer",
	StartAfterFinal:       "a task starts after its final phase was stored",
	AcknowledgedNotStored: "a result is acknowledged and stored nowhere",
	ResultGivenUp:         "an attempt is given up as lost although its agent has its result and its lease",
	CounterWrong:          "a counter differs from the journal",
	EpochDecreased:        "a stored epoch decreases, or a final phase changes",
}

// Violation names the invariant that the last step has broken.
func (m Model) Violation(s state) string { return s.journal.violation.String() }

func (i Invariant) String() string { return invariants[i] }

func (t *transition) violate(invariant Invariant) {
	if t.journal.violation == 0 && (t.Watch == 0 || t.Watch == invariant) {
		t.journal.violation = invariant
	}
}

// checkOwners counts the programs that run. A suspended one does nothing.
func (t *transition) checkOwners() {
	owners := 0
	for _, p := range t.processes {
		if p.alive && !p.suspended && p.running != 0 {
			owners++
		}
	}
	if owners > 1 {
		t.violate(TwoOwners)
	}
}

func (t *transition) attemptStarts(e epoch) {
	t.checkOwners()
	if e <= t.journal.started {
		t.violate(EpochNotNewer)
	}
	if t.journal.final && !t.journal.late {
		t.violate(StartAfterFinal)
	}
	t.journal.started = max(t.journal.started, e)
}

// checkAcknowledged is for each result that a leader lets an agent forget. A result of an attempt that was superseded does not count.
func (t *transition) checkAcknowledged(e epoch) {
	if e >= t.journal.given && !t.store.task.recorded(e) && !t.store.task.final() {
		t.violate(AcknowledgedNotStored)
	}
}

// checkGivenUp is for each attempt that a leader gives up.
func (t *transition) checkGivenUp(owner uint8, e epoch) {
	p := &t.processes[owner]
	if p.alive && p.lease > 0 && p.ended == e && p.outcome == succeeded {
		t.violate(ResultGivenUp)
	}
}

// checkStored compares what is stored with what was, and its counters with the attempts whose ends were recorded.
func (t *transition) checkStored(before taskObject) {
	after := t.store.task
	if after.epoch < before.epoch || before.final() && after.phase != before.phase {
		t.violate(EpochDecreased)
	}
	if int(after.retries) != bits.OnesCount16(t.journal.failures) || int(after.reassignments) != bits.OnesCount16(t.journal.losses) {
		t.violate(CounterWrong)
	}
}

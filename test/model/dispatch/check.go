package dispatch

import (
	"math/bits"

	"github.com/swarm-io/swarm-operator/test/invariant"
)

// An Invariant is what must hold in every state.
type Invariant = invariant.Invariant

// The invariants that the model checks.
const (
	TwoOwners             = invariant.TwoOwners
	EpochNotNewer         = invariant.EpochNotNewer
	StartAfterFinal       = invariant.StartAfterFinal
	AcknowledgedNotStored = invariant.AcknowledgedNotStored
	ResultLost            = invariant.ResultLost
	CounterWrong          = invariant.CounterWrong
	EpochDecreased        = invariant.EpochDecreased
)

// Violation names the invariant that the last step has broken.
func (m Model) Violation(s state) string { return s.journal.violation.String() }

// recordViolation records the first broken invariant that is watched.
func (t *transition) recordViolation(broken ...Invariant) {
	for _, one := range broken {
		if t.journal.violation == 0 && (t.Watch == 0 || t.Watch == one) {
			t.journal.violation = one
		}
	}
}

// running counts the running programs. A suspended one does nothing.
func (t *transition) running() (owners int) {
	for _, p := range t.processes {
		if p.alive && !p.suspended && p.running != 0 {
			owners++
		}
	}
	return owners
}

func (t *transition) checkOwners() { t.recordViolation(invariant.CheckOwners(t.running())...) }

func (t *transition) attemptStarts(e epoch) {
	t.recordViolation(t.journal.history.RecordStart(e, t.running(), t.journal.final && !t.journal.lateWrite)...)
}

// checkAcknowledged is called for each result that a leader lets an agent forget.
func (t *transition) checkAcknowledged(e epoch) {
	t.recordViolation(t.journal.history.CheckAcknowledged(e, t.store.task.asStored())...)
}

// asStored returns the object as the invariants see it.
func (t taskObject) asStored() invariant.StoredTask[epoch] {
	phases := [...]string{pending: "", completed: "Completed", exhausted: "Failed", cancelled: "Cancelled"}
	return invariant.StoredTask[epoch]{Epoch: t.epoch, Phase: phases[t.phase], Assigned: t.owner != 0}
}

// checkLost is called for each attempt that a leader gives up.
func (t *transition) checkLost(owner uint8, e epoch) {
	p := &t.processes[owner]
	if p.alive && p.lease > 0 && p.ended == e && p.outcome == succeeded {
		t.recordViolation(ResultLost)
	}
}

// checkStored compares the stored object with the previous one, and its counters with the attempts whose ends were recorded.
func (t *transition) checkStored(before taskObject) {
	after := t.store.task
	t.recordViolation(invariant.CheckChange(before.asStored(), after.asStored())...)
	if int(after.retries) != bits.OnesCount16(t.journal.failures) || int(after.reassignments) != bits.OnesCount16(t.journal.losses) {
		t.recordViolation(CounterWrong)
	}
}

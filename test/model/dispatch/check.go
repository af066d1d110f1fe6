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
	ResultGivenUp         = invariant.ResultGivenUp
	CounterWrong          = invariant.CounterWrong
	EpochDecreased        = invariant.EpochDecreased
)

// Violation names the invariant that the last step has broken.
func (m Model) Violation(s state) string { return s.journal.violation.String() }

// violate records the first broken invariant that is watched.
func (t *transition) violate(broken ...Invariant) {
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

func (t *transition) checkOwners() { t.violate(invariant.Owners(t.running())...) }

func (t *transition) attemptStarts(e epoch) {
	t.violate(t.journal.history.Start(e, t.running(), t.journal.final && !t.journal.late)...)
}

// checkAcknowledged is called for each result that a leader lets an agent forget.
func (t *transition) checkAcknowledged(e epoch) {
	t.violate(t.journal.history.Acknowledge(e, t.store.task.stored())...)
}

// stored returns the object as the invariants see it.
func (t taskObject) stored() invariant.Stored[epoch] {
	phases := [...]string{pending: "", completed: "Completed", exhausted: "Failed", cancelled: "Cancelled"}
	return invariant.Stored[epoch]{Epoch: t.epoch, Phase: phases[t.phase], Assigned: t.owner != 0}
}

// checkGivenUp is called for each attempt that a leader gives up.
func (t *transition) checkGivenUp(owner uint8, e epoch) {
	p := &t.processes[owner]
	if p.alive && p.lease > 0 && p.ended == e && p.outcome == succeeded {
		t.violate(ResultGivenUp)
	}
}

// checkStored compares the stored object with the previous one, and its counters with the attempts whose ends were recorded.
func (t *transition) checkStored(before taskObject) {
	after := t.store.task
	t.violate(invariant.Change(before.stored(), after.stored())...)
	if int(after.retries) != bits.OnesCount16(t.journal.failures) || int(after.reassignments) != bits.OnesCount16(t.journal.losses) {
		t.violate(CounterWrong)
	}
}

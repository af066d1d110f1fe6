// Package invariant defines what must hold for every task, in every order of events. The model of dispatch uses it to check the states that
// it reaches, and `make robustness` to check the journals of real processes.
//
// It does no input or output. A History is a small value without pointers, so that it can be part of a state of the model.
package invariant

import "cmp"

// An Invariant is what must hold at any time.
type Invariant uint8

// The invariants, named by how they are broken.
const (
	TwoOwners Invariant = iota + 1
	EpochNotNewer
	StartAfterFinal
	AcknowledgedNotStored
	ResultLost
	CounterWrong
	EpochDecreased
	ResultUnknown
	NeverFinished
	FinalWhileRunning
	StoppedWithoutRequest
)

var names = [...]string{
	TwoOwners:             "two owners",
	EpochNotNewer:         "an attempt starts with an epoch that is not newer",
	StartAfterFinal:       "a task starts after its final phase was stored",
	AcknowledgedNotStored: "a result is acknowledged and stored nowhere",
	ResultLost:            "an attempt is given up as lost although its agent has its result and its lease",
	CounterWrong:          "a counter differs from the journal",
	EpochDecreased:        "a stored epoch decreases, or a final phase changes",
	ResultUnknown:         "a result is stored that no attempt reported",
	NeverFinished:         "a task has no final phase although nothing is in its way",
	FinalWhileRunning:     "a final phase is stored while an attempt runs",
	StoppedWithoutRequest: "a task is cancelled, suspended or timed out although nothing asked for it",
}

func (i Invariant) String() string { return names[i] }

// CheckOwners is called whenever the number of running attempts of a task changes. A suspended process does not count: it does nothing.
func CheckOwners(running int) (broken []Invariant) {
	if running > 1 {
		broken = append(broken, TwoOwners)
	}
	return broken
}

// A History records what has happened to a task so far.
type History[E cmp.Ordered] struct {
	LastAssigned E // the newest epoch that was sent to an agent
	LastStarted  E // the newest epoch that was started
}

// RecordAssignment is called for each assignment that is sent.
func (h *History[E]) RecordAssignment(epoch E) { h.LastAssigned = max(h.LastAssigned, epoch) }

// RecordStart is called for each attempt that starts: how many attempts run from now on, and whether a final phase was stored before.
func (h *History[E]) RecordStart(epoch E, running int, final bool) (violations []Invariant) {
	violations = CheckOwners(running)
	if epoch <= h.LastStarted {
		violations = append(violations, EpochNotNewer)
	}
	if final {
		violations = append(violations, StartAfterFinal)
	}
	h.LastStarted = max(h.LastStarted, epoch)
	return violations
}

// CheckAcknowledged is called for each result that an agent may forget. A result of an attempt that was superseded does not count.
func (h *History[E]) CheckAcknowledged(epoch E, stored StoredTask[E]) (broken []Invariant) {
	if epoch >= h.LastAssigned && !stored.RecordsEnd(epoch) && !stored.IsFinal() {
		broken = append(broken, AcknowledgedNotStored)
	}
	return broken
}

// StoredTask is a Task as stored by the API server.
type StoredTask[E cmp.Ordered] struct {
	Epoch    E
	Phase    string // a final one, or empty
	Assigned bool   // an attempt with the epoch was assigned, and its end is not recorded
}

// IsFinal reports whether the phase is final.
func (s StoredTask[E]) IsFinal() bool { return s.Phase != "" }

// RecordsEnd reports whether the object records how an attempt ended.
func (s StoredTask[E]) RecordsEnd(epoch E) bool {
	return s.Epoch > epoch || s.Epoch == epoch && !s.Assigned
}

// CheckChange is called for each write of a Task.
func CheckChange[E cmp.Ordered](before, after StoredTask[E]) (broken []Invariant) {
	if after.Epoch < before.Epoch || before.IsFinal() && after.Phase != before.Phase {
		broken = append(broken, EpochDecreased)
	}
	return broken
}

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
	ResultGivenUp
	CounterWrong
	EpochDecreased
	ResultUnknown
	NeverFinished
	FinalWhileRunning
	StoppedUnasked
)

var names = [...]string{
	TwoOwners:             "two owners",
	EpochNotNewer:         "an attempt starts with an epoch that is not newer",
	StartAfterFinal:       "a task starts after its final phase was stored",
	AcknowledgedNotStored: "a result is acknowledged and stored nowhere",
	ResultGivenUp:         "an attempt is given up as lost although its agent has its result and its lease",
	CounterWrong:          "a counter differs from the journal",
	EpochDecreased:        "a stored epoch decreases, or a final phase changes",
	ResultUnknown:         "a result is stored that no attempt reported",
	NeverFinished:         "a task has no final phase although nothing is in its way",
	FinalWhileRunning:     "a final phase is stored while an attempt runs",
	StoppedUnasked:        "a task is cancelled, suspended or timed out although nothing asked for it",
}

func (i Invariant) String() string { return names[i] }

// Owners is called whenever the number of running attempts of a task changes. A suspended process does not count: it does nothing.
func Owners(running int) (broken []Invariant) {
	if running > 1 {
		broken = append(broken, TwoOwners)
	}
	return broken
}

// A History records what has happened to a task so far.
type History[E cmp.Ordered] struct {
	Given   E // the newest epoch that was sent to an agent
	Started E // the newest epoch that was started
}

// Give is called for each assignment that is sent.
func (h *History[E]) Give(epoch E) { h.Given = max(h.Given, epoch) }

// Start is called for each attempt that starts: how many attempts run from now on, and whether a final phase was stored before.
func (h *History[E]) Start(epoch E, running int, final bool) (broken []Invariant) {
	broken = Owners(running)
	if epoch <= h.Started {
		broken = append(broken, EpochNotNewer)
	}
	if final {
		broken = append(broken, StartAfterFinal)
	}
	h.Started = max(h.Started, epoch)
	return broken
}

// Acknowledge is called for each result that an agent may forget. A result of an attempt that was superseded does not count.
func (h *History[E]) Acknowledge(epoch E, stored Stored[E]) (broken []Invariant) {
	if epoch >= h.Given && !stored.Records(epoch) && !stored.Final() {
		broken = append(broken, AcknowledgedNotStored)
	}
	return broken
}

// Stored is a Task as stored by the API server.
type Stored[E cmp.Ordered] struct {
	Epoch    E
	Phase    string // a final one, or empty
	Assigned bool   // an attempt with the epoch was assigned, and its end is not recorded
}

// Final reports whether the phase is final.
func (s Stored[E]) Final() bool { return s.Phase != "" }

// Records reports whether the object records how an attempt ended.
func (s Stored[E]) Records(epoch E) bool { return s.Epoch > epoch || s.Epoch == epoch && !s.Assigned }

// Change is called for each write of a Task.
func Change[E cmp.Ordered](before, after Stored[E]) (broken []Invariant) {
	if after.Epoch < before.Epoch || before.Final() && after.Phase != before.Phase {
		broken = append(broken, EpochDecreased)
	}
	return broken
}

// Package ledger records the attempts of an agent: those that run, those that have ended and are not acknowledged yet, and the newest epoch
// that the agent has seen of each piece of work.
//
// Its invariants: never more attempts than slots; never two attempts at one piece of work; never an epoch that is older than the newest one
// seen of that work, nor the same one twice; a result stays until it is acknowledged. It does no I/O and reads no clock.
package ledger

import (
	"cmp"
	"fmt"
	"slices"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const (
	// An agent with this many unacknowledged results takes no more work until the operator has caught up. Running attempts may still add
	// results.
	maxUnacknowledged = 128
	// The number of epochs that are stored one by one. Epochs older than all of them are refused as well.
	maxEpochs = 4096
)

// Reasons for which an assignment is declined.
const (
	ReasonDraining   = "Draining"
	ReasonNoSlot     = "NoFreeSlot"
	ReasonStaleEpoch = "StaleEpoch"
	ReasonRunning    = "PreviousAttemptRunning"
	ReasonMalformed  = "MalformedAssignment"
)

// A Decision on an assignment is to start it, to decline it with a reason, or neither when it is already known.
type Decision struct {
	Start           bool
	Reason, Message string
}

// A Ledger belongs to one goroutine.
type Ledger struct {
	slots        int
	draining     bool
	running      map[linkv1.WorkKey]*linkv1.Attempt
	results      []*linkv1.Result // oldest first
	newestEpochs map[linkv1.WorkKey]int64
	staleEpoch   int64 // epochs up to this one are too old, whatever their work
}

// New returns an empty ledger.
func New(slots int) *Ledger {
	return &Ledger{slots: slots, running: map[linkv1.WorkKey]*linkv1.Attempt{}, newestEpochs: map[linkv1.WorkKey]int64{}}
}

// Decide decides on an assignment, and records it as running if it is to be started.
func (l *Ledger) Decide(attempt *linkv1.Attempt) Decision {
	key := attempt.Key()
	decision := l.decide(key)
	if decision.Start {
		l.running[key.WorkKey] = attempt
	}
	if key.TaskUID != "" {
		l.recordEpoch(key)
	}
	return decision
}

func (l *Ledger) decide(key linkv1.AttemptKey) Decision {
	newest := max(l.newestEpochs[key.WorkKey], l.staleEpoch)
	running := l.running[key.WorkKey]
	switch {
	case l.IsTracked(key):
		return Decision{} // a repeated Assign
	case key.TaskUID == "" || key.Epoch <= 0:
		return declineFor(ReasonMalformed, "an assignment needs the task's UID and an epoch")
	case key.Epoch <= newest:
		return declineFor(ReasonStaleEpoch, "epoch %d is not newer than %d, which this agent has seen", key.Epoch, newest)
	case running != nil:
		return declineFor(ReasonRunning, "attempt %d with epoch %d of the same work has not ended", running.GetAttempt(), running.GetEpoch())
	case l.draining:
		return declineFor(ReasonDraining, "the agent takes no new work")
	case len(l.running) >= l.slots:
		return declineFor(ReasonNoSlot, "all %d slots are taken", l.slots)
	}
	return Decision{Start: true}
}

func declineFor(reason, format string, arguments ...any) Decision {
	return Decision{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

func (l *Ledger) recordEpoch(key linkv1.AttemptKey) {
	l.newestEpochs[key.WorkKey] = max(l.newestEpochs[key.WorkKey], key.Epoch)
	if len(l.newestEpochs) > maxEpochs {
		l.compactEpochs()
	}
}

// compactEpochs makes room by replacing the older half of the epochs with one number.
func (l *Ledger) compactEpochs() {
	epochs := make([]int64, 0, len(l.newestEpochs))
	for _, epoch := range l.newestEpochs {
		epochs = append(epochs, epoch)
	}
	slices.Sort(epochs)
	l.staleEpoch = max(l.staleEpoch, epochs[len(epochs)/2])
	for key, epoch := range l.newestEpochs {
		if epoch <= l.staleEpoch {
			delete(l.newestEpochs, key)
		}
	}
}

// IsRunning reports whether an attempt runs.
func (l *Ledger) IsRunning(key linkv1.AttemptKey) bool {
	running := l.running[key.WorkKey]
	return running != nil && running.Key() == key
}

// IsTracked reports whether an attempt runs, or waits for the acknowledgement of its result.
func (l *Ledger) IsTracked(key linkv1.AttemptKey) bool {
	return l.IsRunning(key) || l.resultIndex(key) >= 0
}

// StoreResult stores the result of an attempt that ran or was declined, until it is acknowledged.
func (l *Ledger) StoreResult(result *linkv1.Result) {
	key := result.GetAttempt().Key()
	if l.IsRunning(key) {
		delete(l.running, key.WorkKey)
	}
	l.results = append(l.results, result)
}

// Acknowledge removes a result.
func (l *Ledger) Acknowledge(key linkv1.AttemptKey) {
	if index := l.resultIndex(key); index >= 0 {
		l.results = slices.Delete(l.results, index, index+1)
	}
}

func (l *Ledger) resultIndex(key linkv1.AttemptKey) int {
	return slices.IndexFunc(l.results, func(r *linkv1.Result) bool { return r.GetAttempt().Key() == key })
}

// Drain stops taking new work, for good.
func (l *Ledger) Drain() { l.draining = true }

// Draining reports whether the agent takes no new work.
func (l *Ledger) Draining() bool { return l.draining }

// FreeSlots returns how many more attempts the agent would take now.
func (l *Ledger) FreeSlots() int {
	if l.draining || len(l.results) >= maxUnacknowledged {
		return 0
	}
	return max(0, l.slots-len(l.running))
}

// Running returns the running attempts, by epoch.
func (l *Ledger) Running() []*linkv1.Attempt {
	attempts := make([]*linkv1.Attempt, 0, len(l.running))
	for _, attempt := range l.running {
		attempts = append(attempts, attempt)
	}
	slices.SortFunc(attempts, func(a, b *linkv1.Attempt) int { return cmp.Compare(a.GetEpoch(), b.GetEpoch()) })
	return attempts
}

// Unacknowledged returns the results that are not acknowledged, oldest first. The caller must not change them.
func (l *Ledger) Unacknowledged() []*linkv1.Result { return slices.Clone(l.results) }

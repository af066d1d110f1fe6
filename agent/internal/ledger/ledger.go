// Package ledger is an agent's memory: what runs, what has ended and is not yet acknowledged, and the newest epoch it has
// seen of each piece of work.
//
// Its invariants: never more attempts than slots; never two attempts of one piece of work; never an epoch older than the
// newest seen of that work, nor the same one twice; a result stays until it is acknowledged. It does no input or output
// and knows no time.
package ledger

import (
	"cmp"
	"fmt"
	"slices"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const (
	// An agent that has this many results that are not acknowledged takes no more work until the operator has caught up. What runs already may
	// add to them.
	maxUnacknowledged = 128
	// Epochs that are remembered one by one. What is older than all of them is refused, too.
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

// A Decision is the decision on an assignment: it is started, or declined with a reason, or, when it is known already,
// neither.
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

// New makes an empty ledger.
func New(slots int) *Ledger {
	return &Ledger{slots: slots, running: map[linkv1.WorkKey]*linkv1.Attempt{}, newestEpochs: map[linkv1.WorkKey]int64{}}
}

// Decide judges an assignment, and remembers it as running when it is to be started.
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

// compactEpochs makes room by remembering the older half of the epochs as one number.
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

// StoreResult keeps the result of what ran, or of what was declined, until it is acknowledged.
func (l *Ledger) StoreResult(result *linkv1.Result) {
	key := result.GetAttempt().Key()
	if l.IsRunning(key) {
		delete(l.running, key.WorkKey)
	}
	l.results = append(l.results, result)
}

// Acknowledge forgets a result.
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

// FreeSlots is how many more attempts the agent would take now.
func (l *Ledger) FreeSlots() int {
	if l.draining || len(l.results) >= maxUnacknowledged {
		return 0
	}
	return max(0, l.slots-len(l.running))
}

// Running is what runs, by epoch.
func (l *Ledger) Running() []*linkv1.Attempt {
	attempts := make([]*linkv1.Attempt, 0, len(l.running))
	for _, attempt := range l.running {
		attempts = append(attempts, attempt)
	}
	slices.SortFunc(attempts, func(a, b *linkv1.Attempt) int { return cmp.Compare(a.GetEpoch(), b.GetEpoch()) })
	return attempts
}

// Unacknowledged are the results that were not confirmed, oldest first. The caller must not change them.
func (l *Ledger) Unacknowledged() []*linkv1.Result { return slices.Clone(l.results) }

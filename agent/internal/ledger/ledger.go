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
	mostResults = 128
	// Epochs that are remembered one by one. What is older than all of them is refused, too.
	mostEpochs = 4096
)

// Reasons for which an assignment is declined.
const (
	ReasonDraining   = "Draining"
	ReasonNoSlot     = "NoFreeSlot"
	ReasonStaleEpoch = "StaleEpoch"
	ReasonRunning    = "PreviousAttemptRunning"
	ReasonMalformed  = "MalformedAssignment"
)

// A Verdict is the decision on an assignment: it is started, or declined with a reason, or, when it is known already,
// neither.
type Verdict struct {
	Start           bool
	Reason, Message string
}

// A Ledger belongs to one goroutine.
type Ledger struct {
	slots    int
	draining bool
	running  map[linkv1.WorkKey]*linkv1.Attempt
	results  []*linkv1.Result // oldest first
	newest   map[linkv1.WorkKey]int64
	floor    int64 // epochs up to this one are too old, whatever their work
}

// New makes an empty ledger.
func New(slots int) *Ledger {
	return &Ledger{slots: slots, running: map[linkv1.WorkKey]*linkv1.Attempt{}, newest: map[linkv1.WorkKey]int64{}}
}

// Decide judges an assignment, and remembers it as running when it is to be started.
func (l *Ledger) Decide(attempt *linkv1.Attempt) Verdict {
	key := attempt.Key()
	verdict := l.judge(key)
	if verdict.Start {
		l.running[key.WorkKey] = attempt
	}
	if key.TaskUID != "" {
		l.see(key)
	}
	return verdict
}

func (l *Ledger) judge(key linkv1.AttemptKey) Verdict {
	newest := max(l.newest[key.WorkKey], l.floor)
	runs := l.running[key.WorkKey]
	switch {
	case l.Knows(key):
		return Verdict{} // a repeated Assign
	case key.TaskUID == "" || key.Epoch <= 0:
		return declined(ReasonMalformed, "an assignment needs the task's UID and an epoch")
	case key.Epoch <= newest:
		return declined(ReasonStaleEpoch, "epoch %d is not newer than %d, which this agent has seen", key.Epoch, newest)
	case runs != nil:
		return declined(ReasonRunning, "attempt %d with epoch %d of the same work has not ended", runs.GetAttempt(), runs.GetEpoch())
	case l.draining:
		return declined(ReasonDraining, "the agent takes no new work")
	case len(l.running) >= l.slots:
		return declined(ReasonNoSlot, "all %d slots are taken", l.slots)
	}
	return Verdict{Start: true}
}

func declined(reason, format string, arguments ...any) Verdict {
	return Verdict{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

func (l *Ledger) see(key linkv1.AttemptKey) {
	l.newest[key.WorkKey] = max(l.newest[key.WorkKey], key.Epoch)
	if len(l.newest) > mostEpochs {
		l.forgetOldest()
	}
}

// forgetOldest makes room by remembering the older half of the epochs as one number.
func (l *Ledger) forgetOldest() {
	epochs := make([]int64, 0, len(l.newest))
	for _, epoch := range l.newest {
		epochs = append(epochs, epoch)
	}
	slices.Sort(epochs)
	l.floor = max(l.floor, epochs[len(epochs)/2])
	for key, epoch := range l.newest {
		if epoch <= l.floor {
			delete(l.newest, key)
		}
	}
}

// Runs reports whether an attempt runs.
func (l *Ledger) Runs(key linkv1.AttemptKey) bool {
	runs := l.running[key.WorkKey]
	return runs != nil && runs.Key() == key
}

// Knows reports whether an attempt runs, or waits for the acknowledgement of its result.
func (l *Ledger) Knows(key linkv1.AttemptKey) bool { return l.Runs(key) || l.result(key) >= 0 }

// Finish keeps the result of what ran, or of what was declined, until it is acknowledged.
func (l *Ledger) Finish(result *linkv1.Result) {
	key := result.GetAttempt().Key()
	if l.Runs(key) {
		delete(l.running, key.WorkKey)
	}
	l.results = append(l.results, result)
}

// Acknowledge forgets a result.
func (l *Ledger) Acknowledge(key linkv1.AttemptKey) {
	if at := l.result(key); at >= 0 {
		l.results = slices.Delete(l.results, at, at+1)
	}
}

func (l *Ledger) result(key linkv1.AttemptKey) int {
	return slices.IndexFunc(l.results, func(r *linkv1.Result) bool { return r.GetAttempt().Key() == key })
}

// Drain stops taking new work, for good.
func (l *Ledger) Drain() { l.draining = true }

// Draining reports whether the agent takes no new work.
func (l *Ledger) Draining() bool { return l.draining }

// Free is how many more attempts the agent would take now.
func (l *Ledger) Free() int {
	if l.draining || len(l.results) >= mostResults {
		return 0
	}
	return max(0, l.slots-len(l.running))
}

// Running is what runs, by epoch.
func (l *Ledger) Running() []*linkv1.Attempt {
	list := make([]*linkv1.Attempt, 0, len(l.running))
	for _, attempt := range l.running {
		list = append(list, attempt)
	}
	slices.SortFunc(list, func(a, b *linkv1.Attempt) int { return cmp.Compare(a.GetEpoch(), b.GetEpoch()) })
	return list
}

// Unacknowledged are the results that were not confirmed, oldest first. The caller must not change them.
func (l *Ledger) Unacknowledged() []*linkv1.Result { return slices.Clone(l.results) }

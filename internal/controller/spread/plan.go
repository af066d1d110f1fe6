package spread

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// Plan is what to do about a workload, and what to report.
type Plan struct {
	Moves     []split.Move // to make now
	Decision  split.Decision
	Policy    *split.Policy // in force, nil for none
	Problem   string        // what users have to correct, "" for nothing
	RecheckAt time.Time     // when to reconcile again without an event, zero for never
}

// makePlan decides. It depends only on its arguments.
func makePlan(snap workloadSnapshot, t target) Plan {
	p := Plan{Decision: split.Decide(snap.input), Policy: snap.input.Policy}
	p.Moves = p.Decision.Moves
	p.scheduleRecheck(p.Decision.RecheckAt)
	p.scheduleRecheck(snap.recheckAt)
	p.setProblem(snap, t)
	switch last := t.state.lastRefusal; {
	case snap.frozen != "":
		p.dropMoves(snap.frozen)
	case last.isActive(snap, t.now):
		p.dropEvictions(last)
	case snap.severalBudgets && len(p.Moves) == 0 && p.Decision.Status == split.Rebalancing:
		p.setBlocked(refusal{reason: snap.input.Hold, severalBudgets: true})
	}
	return p
}

// setProblem reports what is wrong, if anything, and its effect. The engine only knows policies.
func (p *Plan) setProblem(snap workloadSnapshot, t target) {
	p.Problem = snap.input.Problem
	switch {
	case snap.unsupported != "":
		p.Decision.Reason = "nothing is moved"
	case t.spec.Problem == "" && snap.invalid != "":
		p.Decision.Reason = "Ready pods stay where they are"
	}
}

// statusText returns the text of the status annotation.
func (p Plan) statusText() string {
	if p.Decision.Status == split.Invalid {
		return string(split.Invalid) + ": " + p.Problem
	}
	return string(p.Decision.Status)
}

// dropMoves cancels all moves.
func (p *Plan) dropMoves(reason string) {
	if len(p.Moves) > 0 {
		p.Moves, p.Decision.Reason = nil, "waiting: "+reason
	}
}

// dropEvictions cancels evictions that budgets have just refused.
func (p *Plan) dropEvictions(by refusal) {
	asked := len(p.Moves)
	p.Moves = slices.DeleteFunc(slices.Clone(p.Moves), func(move split.Move) bool { return move.Verb == split.Evict })
	if len(p.Moves) < asked {
		p.setBlocked(by)
	}
}

// setBlocked reports that budgets prevent a move.
func (p *Plan) setBlocked(by refusal) {
	p.scheduleRecheck(by.retryAt)
	if p.Decision.Status == split.Invalid {
		return
	}
	p.Decision.Status, p.Decision.Reason = split.BlockedByPDB, by.reason
	if by.severalBudgets {
		p.Problem = by.reason
	}
}

// setError reports what failed and will be retried.
func (p *Plan) setError(failed error) {
	if p.Decision.Status != split.Invalid {
		p.Decision.Reason = "trying again: " + stableMessage(failed)
	}
}

// stableMessage returns a stable text for an error: a different reason would cause another write, which would trigger the waiting retry.
func stableMessage(err error) string {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return "the API server did not answer"
	case status.Status().Code >= http.StatusInternalServerError, status.Status().Code == http.StatusTooManyRequests:
		return "the API server says " + string(status.Status().Reason)
	}
	return err.Error()
}

// scheduleRecheck requests another reconcile at a time; the earliest request wins.
func (p *Plan) scheduleRecheck(at time.Time) {
	if !at.IsZero() && (p.RecheckAt.IsZero() || at.Before(p.RecheckAt)) {
		p.RecheckAt = at
	}
}

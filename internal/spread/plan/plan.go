// Package plan plans what to do about a spread workload now: the moves of the engine, as far as admission, disruption windows and earlier
// refusals permit them, and what to report. The controller carries a plan out, and the command line shows it.
//
// It promises that a plan depends only on its input and the time. It never reads the cluster or the clock.
package plan

import (
	"slices"
	"time"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// Plan is what to do about a workload, and what to report.
type Plan struct {
	Moves     []split.Move // to make now
	Decision  split.Decision
	Policy    *split.Policy // in force, nil for none
	Problem   string        // what users have to correct, "" for nothing
	RecheckAt time.Time     // when to plan again without an event, zero for never
}

// New plans.
func New(input Input, now time.Time) Plan {
	return newPlan(input, input.constraints(now), now)
}

func newPlan(input Input, c constraints, now time.Time) Plan {
	snapshot := c.applyTo(input.Snapshot)
	snapshot.Now = now
	p := Plan{Decision: split.Decide(snapshot), Policy: snapshot.Policy}
	p.Moves = p.Decision.Moves
	p.ScheduleRecheck(p.Decision.RecheckAt)
	p.ScheduleRecheck(c.recheckAt)
	p.setProblem(input, c)
	switch {
	case c.frozen != "":
		p.dropMoves(c.frozen)
	case input.Refusal.Reason != "":
		p.dropEvictions(input.Refusal)
	case input.SeveralBudgets && c.hold == "" && len(p.Moves) == 0 && p.Decision.Status == split.Rebalancing:
		p.SetBlocked(Refusal{Reason: snapshot.Hold, SeveralBudgets: true})
	}
	return p
}

// setProblem reports what is wrong, if anything, and its effect. The engine only knows policies.
func (p *Plan) setProblem(input Input, c constraints) {
	p.Problem = c.applyTo(input.Snapshot).Problem
	switch {
	case c.unsupported != "":
		p.Decision.Reason = "nothing is moved"
	case input.Snapshot.Problem == "" && c.invalid != "":
		p.Decision.Reason = "Ready pods stay where they are"
	}
}

// StatusText returns the text of the status annotation.
func (p Plan) StatusText() string {
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
func (p *Plan) dropEvictions(refused Refusal) {
	before := len(p.Moves)
	p.Moves = slices.DeleteFunc(slices.Clone(p.Moves), func(move split.Move) bool { return move.Verb == split.Evict })
	if len(p.Moves) < before {
		p.SetBlocked(refused)
	}
}

// SetBlocked reports that budgets prevent a move.
func (p *Plan) SetBlocked(refused Refusal) {
	p.ScheduleRecheck(refused.RetryAt)
	if p.Decision.Status == split.Invalid {
		return
	}
	p.Decision.Status, p.Decision.Reason = split.BlockedByPDB, refused.Reason
	if refused.SeveralBudgets {
		p.Problem = refused.Reason
	}
}

// ScheduleRecheck requests another plan at a time; the earliest request wins.
func (p *Plan) ScheduleRecheck(at time.Time) {
	if !at.IsZero() && (p.RecheckAt.IsZero() || at.Before(p.RecheckAt)) {
		p.RecheckAt = at
	}
}

package spread

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
)

// Plan is what to do about a workload, and what to report.
type Plan struct {
	Moves    []engine.Move // to make now
	Decision engine.Decision
	Policy   *engine.Policy // in force, nil for none
	Fault    string         // what users have to correct, "" for nothing
	Again    time.Time      // when to reconcile again without an event, zero for never
}

// plan decides. It depends only on its arguments.
func plan(seen sight, of subject) Plan {
	made := Plan{Decision: engine.Decide(seen.world), Policy: seen.world.Policy}
	made.Moves = made.Decision.Moves
	made.look(made.Decision.RecheckAt)
	made.look(seen.turn)
	made.blame(seen, of)
	switch refused := of.memory.refused; {
	case seen.still != "":
		made.keepStill(seen.still)
	case refused.stands(seen, of.now):
		made.spare(refused)
	case seen.crowded && len(made.Moves) == 0 && made.Decision.Status == engine.Rebalancing:
		made.block(refusal{reason: seen.world.Hold, crowded: true})
	}
	return made
}

// blame reports what is wrong, if anything, and its effect. The engine only knows policies.
func (p *Plan) blame(seen sight, of subject) {
	p.Fault = seen.world.Problem
	switch {
	case seen.never != "":
		p.Decision.Reason = "nothing is moved"
	case of.wish.Problem == "" && seen.wrong != "":
		p.Decision.Reason = "Ready pods stay where they are"
	}
}

// status returns the text of the status annotation.
func (p Plan) status() string {
	if p.Decision.Status == engine.Invalid {
		return string(engine.Invalid) + ": " + p.Fault
	}
	return string(p.Decision.Status)
}

// keepStill cancels all moves.
func (p *Plan) keepStill(reason string) {
	if len(p.Moves) > 0 {
		p.Moves, p.Decision.Reason = nil, "waiting: "+reason
	}
}

// spare cancels evictions that budgets have just refused.
func (p *Plan) spare(refused refusal) {
	asked := len(p.Moves)
	p.Moves = slices.DeleteFunc(slices.Clone(p.Moves), func(move engine.Move) bool { return move.Verb == engine.Evict })
	if len(p.Moves) < asked {
		p.block(refused)
	}
}

// block reports that budgets prevent a move.
func (p *Plan) block(by refusal) {
	p.look(by.until)
	if p.Decision.Status == engine.Invalid {
		return
	}
	p.Decision.Status, p.Decision.Reason = engine.BlockedByPDB, by.reason
	if by.crowded {
		p.Fault = by.reason
	}
}

// fail reports what failed and will be retried.
func (p *Plan) fail(failed error) {
	if p.Decision.Status != engine.Invalid {
		p.Decision.Reason = "trying again: " + brief(failed)
	}
}

// brief returns a stable text for an error: a different reason would cause another write, which would trigger the waiting retry.
func brief(failed error) string {
	var said apierrors.APIStatus
	switch {
	case !errors.As(failed, &said):
		return "the API server did not answer"
	case said.Status().Code >= http.StatusInternalServerError, said.Status().Code == http.StatusTooManyRequests:
		return "the API server says " + string(said.Status().Reason)
	}
	return failed.Error()
}

// look requests another reconcile at a time; the earliest request wins.
func (p *Plan) look(at time.Time) {
	if !at.IsZero() && (p.Again.IsZero() || at.Before(p.Again)) {
		p.Again = at
	}
}

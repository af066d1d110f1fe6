package spread

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
)

// Plan is what is to be done about a workload, and what is to be said of it.
type Plan struct {
	Moves    []engine.Move // to be made now
	Decision engine.Decision
	Policy   *engine.Policy // in force, nil for none
	Fault    string         // what people have to put right, "" for nothing
	Again    time.Time      // when to look again though nothing happens, zero for never
}

// plan decides. It reaches nothing but its arguments.
func plan(seen sight, of subject) Plan {
	made := Plan{Decision: engine.Next(seen.world), Policy: seen.world.Policy}
	made.Moves = made.Decision.Moves
	made.look(made.Decision.Again)
	made.look(seen.turn)
	made.blame(seen, of)
	switch refused := of.memory.refused; {
	case seen.still != "":
		made.keepStill(seen.still)
	case refused.stands(seen, of.now):
		made.spare(refused)
	case seen.crowded && len(made.Moves) == 0 && made.Decision.Word == engine.Rebalancing:
		made.block(refusal{reason: seen.world.Hold, crowded: true})
	}
	return made
}

// blame says what is wrong, if anything is, and what that means. The engine knows only of policies.
func (p *Plan) blame(seen sight, of subject) {
	p.Fault = seen.world.Problem
	switch {
	case seen.never != "":
		p.Decision.Reason = "nothing is moved"
	case of.wish.Problem == "" && seen.wrong != "":
		p.Decision.Reason = "Ready pods stay where they are"
	}
}

// status is the text of the status annotation.
func (p Plan) status() string {
	if p.Decision.Word == engine.Invalid {
		return string(engine.Invalid) + ": " + p.Fault
	}
	return string(p.Decision.Word)
}

// keepStill takes nothing away, whatever was decided.
func (p *Plan) keepStill(reason string) {
	if len(p.Moves) > 0 {
		p.Moves, p.Decision.Reason = nil, "waiting: "+reason
	}
}

// spare leaves alone what budgets refused a moment ago.
func (p *Plan) spare(refused refusal) {
	asked := len(p.Moves)
	p.Moves = slices.DeleteFunc(slices.Clone(p.Moves), func(move engine.Move) bool { return move.Verb == engine.Evict })
	if len(p.Moves) < asked {
		p.block(refused)
	}
}

// block says that budgets stand in the way.
func (p *Plan) block(by refusal) {
	p.look(by.until)
	if p.Decision.Word == engine.Invalid {
		return
	}
	p.Decision.Word, p.Decision.Reason = engine.BlockedByPDB, by.reason
	if by.crowded {
		p.Fault = by.reason
	}
}

// fail says what could not be done, and will be tried again.
func (p *Plan) fail(failed error) {
	if p.Decision.Word != engine.Invalid {
		p.Decision.Reason = "trying again: " + brief(failed)
	}
}

// brief is an error in words that are the same the next time: another reason is another write, and that wakes whoever waits to try again.
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

// look asks for another look at a time, the earliest of those asked for.
func (p *Plan) look(at time.Time) {
	if !at.IsZero() && (p.Again.IsZero() || at.Before(p.Again)) {
		p.Again = at
	}
}

// Package assign shares the standing jobs of a pool out among its workers, and hands them over so that no job ever has two owners.
//
// It promises:
//   - The same input gives the same answer. Workers count by ordinal, in whatever order they come; jobs count by their place in the
//     list, and under Hashed by their names alone. The previous revision is part of the input: for Sticky, and for which workers have joined.
//   - Every job is on exactly one worker or is unassigned with a reason, in words that are worth showing to a person.
//   - No worker gets more than its capacity. A dedicated job is alone on its worker.
//   - Equal weights: loads differ by at most one job (Sticky, Contiguous), or stay within imbalancePercent (Hashed).
//     Other weights: no worker is above the least loaded one by more than its own largest job (Sticky), above the mean by more than
//     the largest job (Contiguous), above its limit or the mean plus the largest job (Hashed). Capacities come first.
//   - Sticky moves the fewest jobs that balance allows, and none when the assignment still fits. Assigning again moves nothing.
//   - A step of a hand-over grants a job only when nobody else may hold it.
//
// It never looks at the cluster or the clock, never remembers and never changes what it is given: lists and revisions are values
// with their indexes, which the caller keeps, so that the next small change costs little.
//
// Invariants: a Jobs list has every name once; the jobs of a share are ascending positions in its revision's list; shares are in
// order of ordinals; slices of a revision are shared with its successors and never written.
package assign

import "fmt"

// State is how far a worker takes part.
type State int

// The states of a worker.
const (
	// Ready keeps and takes jobs.
	Ready State = iota
	// Away keeps the jobs that it has, and takes no others. Contiguous and Hashed, which know no history, treat it as if it were ready.
	// A worker that was not in the previous revision has no part before it is ready.
	Away
	// Leaving loses its jobs.
	Leaving
)

// Worker is a pod of the pool, or the place of one.
type Worker struct {
	Name     string
	Ordinal  int // of a StatefulSet's pod, or the slot of a Deployment's; it is what jobs are bound to
	Capacity int // the most weight it may hold, 0 for no limit
	State    State
}

// Strategy is how jobs are shared out, in the words of WorkerPool.spec.strategy.
type Strategy string

// The strategies.
const (
	// Sticky balances exactly and moves the fewest jobs.
	Sticky Strategy = "Sticky"
	// Contiguous gives each worker a piece of the list, as a person would.
	Contiguous Strategy = "Contiguous"
	// Hashed knows neither history nor order.
	Hashed Strategy = "Hashed"
)

// Algorithm is the version of what Hashed computes. It changes whenever a job could be given to another worker.
const Algorithm = 1

// DefaultImbalance is how many percent above the mean a worker may be under Hashed.
const DefaultImbalance = 5

// Input is all that an assignment depends on.
type Input struct {
	Jobs             *Jobs
	Workers          []Worker
	Previous         *Revision // nil for none
	Strategy         Strategy  // "" is Sticky
	ImbalancePercent int       // for Hashed; 0 is DefaultImbalance
	Rehash           bool      // allows Hashed to give up an assignment of another Algorithm
}

// Unassigned is a job that no worker can take.
type Unassigned struct {
	Job    string
	Reason string
}

// Decision is the next revision and what is to be said about it.
type Decision struct {
	Next       *Revision
	Unassigned []Unassigned // in list order
	Refused    string       // why nothing was decided: Next is then the previous revision
	contiguous bool
	pass       *pass
	before     *Revision
}

// Plan assigns every job, or says why it cannot.
func Plan(in Input) Decision {
	if in.Jobs == nil {
		in.Jobs = &Jobs{}
	}
	if refused := otherAlgorithm(in); refused != "" {
		return Decision{Next: in.Previous, Refused: refused, before: in.Previous}
	}
	pass := begin(in)
	switch in.Strategy {
	case Contiguous:
		pass.contiguous()
	case Hashed:
		pass.hashed(in.ImbalancePercent)
	default:
		pass.sticky()
	}
	return Decision{Next: pass.revision(in.Strategy), Unassigned: pass.unassigned(), contiguous: in.Strategy == Contiguous, pass: pass, before: in.Previous}
}

func otherAlgorithm(in Input) string {
	previous := in.Previous
	if in.Strategy != Hashed || in.Rehash || previous == nil || previous.algorithm == 0 || previous.algorithm == Algorithm {
		return ""
	}
	return fmt.Sprintf("the jobs were hashed by algorithm %d and this version knows algorithm %d, which would move most of them: nothing moves unless that is asked for",
		previous.algorithm, Algorithm)
}

// Package assign distributes the standing jobs of a pool among its workers, and hands them over so that no job ever has two owners.
//
// It promises:
//   - The same input gives the same answer. Workers are identified by ordinal, regardless of input order. Jobs are ordered by their
//     position in the list; Hashed uses only their names. The previous revision is part of the input: Sticky depends on it, and so does
//     which workers have joined.
//   - Every job is on exactly one worker, or is unassigned with a reason that can be shown to users.
//   - No worker gets more than its capacity. A dedicated job is alone on its worker.
//   - Equal weights: loads differ by at most one job (Sticky, Contiguous), or stay within imbalancePercent (Hashed).
//     Other weights: no worker is above the least loaded one by more than its own largest job (Sticky), above the mean by more than
//     the largest job (Contiguous), above its limit or the mean plus the largest job (Hashed). Capacities come first.
//   - Sticky moves the fewest jobs that balance allows, and none when the assignment still fits. Assigning again moves nothing.
//   - A step of a handover grants a job only when no other worker may hold it.
//
// It does not read the cluster or the clock, keeps no state and never modifies its input. Lists and revisions are values with indexes;
// the caller keeps them so that the next small change is cheap.
//
// Invariants: names in a JobList list are unique; the jobs of a share are ascending positions in its revision's list; shares are ordered by
// ordinal; slices of a revision are shared with its successors and never written.
package assign

import "fmt"

// State says to what extent a worker participates.
type State int

// The states of a worker.
const (
	// Ready keeps and takes jobs.
	Ready State = iota
	// NotReady keeps its jobs and takes no others. Contiguous and Hashed, which ignore history, treat it as Ready. A worker that was not in
	// the previous revision does not participate until it is ready.
	NotReady
	// Leaving loses its jobs.
	Leaving
)

// Worker is a pod of the pool, or the slot for one.
type Worker struct {
	Name     string
	Ordinal  int // ordinal of a StatefulSet pod, or slot of a Deployment pod; jobs are bound to it
	Capacity int // the most weight it may hold, 0 for no limit
	State    State
}

// Strategy is how jobs are distributed. The values are those of WorkerPool.spec.strategy.
type Strategy string

// The strategies.
const (
	// Sticky balances exactly and moves the fewest jobs.
	Sticky Strategy = "Sticky"
	// Contiguous gives each worker a contiguous piece of the list.
	Contiguous Strategy = "Contiguous"
	// Hashed ignores history and order.
	Hashed Strategy = "Hashed"
)

// Algorithm is the version of the algorithm of Hashed. It changes whenever a job could be assigned to a different worker.
const Algorithm = 1

// DefaultImbalancePercent is how many percent above the mean a worker may be under Hashed.
const DefaultImbalancePercent = 5

// Input is everything that an assignment depends on.
type Input struct {
	Jobs             *JobList
	Workers          []Worker
	Previous         *Revision // nil for none
	Strategy         Strategy  // "" is Sticky
	ImbalancePercent int       // for Hashed; 0 is DefaultImbalancePercent
	Rehash           bool      // allows Hashed to discard an assignment of another Algorithm
}

// Unassigned is a job that no worker can take.
type Unassigned struct {
	Job    string
	Reason string
}

// Decision is the next revision and its explanation.
type Decision struct {
	Next          *Revision
	Unassigned    []Unassigned // in list order
	RefusalReason string       // why nothing was decided; Next is then the previous revision
	contiguous    bool
	solver        *solver
	previous      *Revision
}

// Plan assigns every job, or explains why it cannot.
func Plan(in Input) Decision {
	if in.Jobs == nil {
		in.Jobs = &JobList{}
	}
	if reason := checkAlgorithm(in); reason != "" {
		return Decision{Next: in.Previous, RefusalReason: reason, previous: in.Previous}
	}
	solver := newSolver(in)
	switch in.Strategy {
	case Contiguous:
		solver.assignContiguous()
	case Hashed:
		solver.assignHashed(in.ImbalancePercent)
	default:
		solver.assignSticky()
	}
	return Decision{Next: solver.buildRevision(in.Strategy), Unassigned: solver.listUnassigned(), contiguous: in.Strategy == Contiguous,
		solver: solver, previous: in.Previous}
}

func checkAlgorithm(in Input) string {
	previous := in.Previous
	if in.Strategy != Hashed || in.Rehash || previous == nil || previous.algorithm == 0 || previous.algorithm == Algorithm {
		return ""
	}
	return fmt.Sprintf("the jobs were hashed by algorithm %d and this version knows algorithm %d, which would move most of them: nothing moves unless that is asked for",
		previous.algorithm, Algorithm)
}

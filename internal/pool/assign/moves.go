package assign

import (
	"cmp"
	"fmt"
	"slices"
)

// Move is a job that changes owner.
type Move struct {
	Job      string
	From, To string // workers; "" for none
	Reason   string
}

// heldJob is a job and the share that has it, by its index n.
type heldJob struct {
	job   int32
	share int
}

// Moves returns the jobs that change owner, in list order, followed by those removed from the list. A job does not move if its worker has
// another name but the same ordinal: the pod was replaced.
func (d Decision) Moves() []Move {
	if d.solver == nil {
		return nil
	}
	from, to := d.changedJobs()
	var moves []Move
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].job < to[0].job:
			moves = append(moves, d.newMove(&from[0], nil))
			from = from[1:]
		case len(from) == 0 || to[0].job < from[0].job:
			moves = append(moves, d.newMove(nil, &to[0]))
			to = to[1:]
		default:
			if d.solver.previous[from[0].share].ordinal != d.Next.shares[to[0].share].ordinal {
				moves = append(moves, d.newMove(&from[0], &to[0]))
			}
			from, to = from[1:], to[1:]
		}
	}
	return append(moves, d.removedMoves()...)
}

// changedJobs returns the jobs of workers whose shares differ, by position.
func (d Decision) changedJobs() (from, to []heldJob) {
	before, after := d.solver.previous, d.Next.shares
	for n := range before {
		if at, found := findShare(after, before[n].ordinal); !found || !slices.Equal(before[n].jobs, after[at].jobs) {
			from = appendHeld(from, before[n].jobs, n)
		}
	}
	for n := range after {
		if at, found := findShare(before, after[n].ordinal); !found || !slices.Equal(before[at].jobs, after[n].jobs) {
			to = appendHeld(to, after[n].jobs, n)
		}
	}
	byJob := func(a, b heldJob) int { return cmp.Compare(a.job, b.job) }
	slices.SortFunc(from, byJob)
	slices.SortFunc(to, byJob)
	return from, to
}

func appendHeld(held []heldJob, jobs []int32, share int) []heldJob {
	for _, job := range jobs {
		held = append(held, heldJob{job, share})
	}
	return held
}

func (d Decision) removedMoves() (moves []Move) {
	if d.previous == nil || d.previous.list == d.solver.list {
		return nil
	}
	diff := d.previous.list.diff(d.solver.list)
	for _, from := range d.previous.shares {
		for _, at := range from.jobs {
			if diff.position(at) == noPosition {
				moves = append(moves, Move{d.previous.list.jobs[at].Name, from.worker, "", "it is no longer in the list"})
			}
		}
	}
	return moves
}

func (d Decision) newMove(from, to *heldJob) Move {
	switch {
	case from == nil:
		target := d.Next.shares[to.share]
		return Move{d.solver.list.jobs[to.job].Name, "", target.worker, d.targetReason(to.job, target)}
	case to == nil:
		source := d.solver.previous[from.share]
		return Move{d.solver.list.jobs[from.job].Name, source.worker, "", "no worker can take it: " + d.sourceReason(from.job, source)}
	}
	source, target := d.solver.previous[from.share], d.Next.shares[to.share]
	return Move{d.solver.list.jobs[from.job].Name, source.worker, target.worker, d.sourceReason(from.job, source)}
}

// targetReason explains why a job without a worker gets this one.
func (d Decision) targetReason(job int32, target indexedShare) string {
	if d.solver.list.jobs[job].Dedicated {
		return fmt.Sprintf("it had no worker, and is dedicated: %s is its own", target.worker)
	}
	return "it had no worker"
}

// sourceReason explains why a job cannot stay where it is.
func (d Decision) sourceReason(job int32, source indexedShare) string {
	n, found := slices.BinarySearchFunc(d.solver.active, source.ordinal,
		func(w workerInfo, ordinal int) int { return cmp.Compare(w.Ordinal, ordinal) })
	if !found {
		return d.inactiveReason(source)
	}
	info := &d.solver.active[n]
	switch {
	case d.solver.list.jobs[job].Dedicated:
		return "it is dedicated and needs a worker of its own"
	case info.dedicatedJob != none:
		return fmt.Sprintf("%s is now reserved for %s", info.Name, d.solver.list.jobs[info.dedicatedJob].Name)
	case info.Capacity > 0 && source.load > info.Capacity:
		return fmt.Sprintf("%s had a load of %d, and its capacity is %d", info.Name, source.load, info.Capacity)
	case d.Next.algorithm > 0:
		return fmt.Sprintf("its hash belongs to another of the now %s", pluralize(len(d.solver.active), "worker"))
	case d.contiguous:
		return fmt.Sprintf("its place in the list, %d of %d, now belongs to another worker", job+1, d.solver.list.Len())
	}
	return fmt.Sprintf("%s had a load of %d, and its part among %s is %d", info.Name, source.load,
		pluralize(d.solver.sharedWorkerCount(), "worker"), info.load)
}

func (d Decision) inactiveReason(source indexedShare) string {
	for _, worker := range d.solver.workers {
		if worker.Ordinal == source.ordinal && worker.State == Leaving {
			return fmt.Sprintf("%s gives up its jobs", worker.Name)
		}
	}
	return fmt.Sprintf("%s is gone", source.worker)
}

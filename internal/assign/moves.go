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

// held is a job and the share that has it, by its index n.
type held struct {
	job int32
	n   int
}

// Moves returns the jobs that change owner, in list order, followed by those removed from the list. A job does not move if its worker has
// another name but the same ordinal: the pod was replaced.
func (d Decision) Moves() []Move {
	if d.pass == nil {
		return nil
	}
	from, to := d.touched()
	var moves []Move
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].job < to[0].job:
			moves = append(moves, d.move(&from[0], nil))
			from = from[1:]
		case len(from) == 0 || to[0].job < from[0].job:
			moves = append(moves, d.move(nil, &to[0]))
			to = to[1:]
		default:
			if d.pass.before[from[0].n].ordinal != d.Next.shares[to[0].n].ordinal {
				moves = append(moves, d.move(&from[0], &to[0]))
			}
			from, to = from[1:], to[1:]
		}
	}
	return append(moves, d.removed()...)
}

// touched returns the jobs of workers whose shares differ, by position.
func (d Decision) touched() (from, to []held) {
	before, after := d.pass.before, d.Next.shares
	for n := range before {
		if at, found := seek(after, before[n].ordinal); !found || !slices.Equal(before[n].jobs, after[at].jobs) {
			from = hold(from, before[n].jobs, n)
		}
	}
	for n := range after {
		if at, found := seek(before, after[n].ordinal); !found || !slices.Equal(before[at].jobs, after[n].jobs) {
			to = hold(to, after[n].jobs, n)
		}
	}
	byJob := func(a, b held) int { return cmp.Compare(a.job, b.job) }
	slices.SortFunc(from, byJob)
	slices.SortFunc(to, byJob)
	return from, to
}

func hold(all []held, jobs []int32, n int) []held {
	for _, job := range jobs {
		all = append(all, held{job, n})
	}
	return all
}

func (d Decision) removed() (moves []Move) {
	if d.before == nil || d.before.list == d.pass.list {
		return nil
	}
	moved := d.before.list.shiftTo(d.pass.list)
	for _, from := range d.before.shares {
		for _, at := range from.jobs {
			if moved.of(at) == gone {
				moves = append(moves, Move{d.before.list.jobs[at].Name, from.worker, "", "it is no longer in the list"})
			}
		}
	}
	return moves
}

func (d Decision) move(from, to *held) Move {
	switch {
	case from == nil:
		target := d.Next.shares[to.n]
		return Move{d.pass.list.jobs[to.job].Name, "", target.worker, d.whyHere(to.job, target)}
	case to == nil:
		source := d.pass.before[from.n]
		return Move{d.pass.list.jobs[from.job].Name, source.worker, "", "no worker can take it: " + d.whyLeft(from.job, source)}
	}
	source, target := d.pass.before[from.n], d.Next.shares[to.n]
	return Move{d.pass.list.jobs[from.job].Name, source.worker, target.worker, d.whyLeft(from.job, source)}
}

// whyHere explains why a job without a worker gets this one.
func (d Decision) whyHere(job int32, target share) string {
	if d.pass.list.jobs[job].Dedicated {
		return fmt.Sprintf("it had no worker, and is dedicated: %s is its own", target.worker)
	}
	return "it had no worker"
}

// whyLeft explains why a job cannot stay where it is.
func (d Decision) whyLeft(job int32, source share) string {
	n, found := slices.BinarySearchFunc(d.pass.seats, source.ordinal, func(s seat, ordinal int) int { return cmp.Compare(s.Ordinal, ordinal) })
	if !found {
		return d.whyNoSeat(source)
	}
	at := &d.pass.seats[n]
	switch {
	case d.pass.list.jobs[job].Dedicated:
		return "it is dedicated and needs a worker of its own"
	case at.hosts != nobody:
		return fmt.Sprintf("%s is now reserved for %s", at.Name, d.pass.list.jobs[at.hosts].Name)
	case at.Capacity > 0 && source.load > at.Capacity:
		return fmt.Sprintf("%s had a load of %d, and its capacity is %d", at.Name, source.load, at.Capacity)
	case d.Next.algorithm > 0:
		return fmt.Sprintf("its hash belongs to another of the now %s", count(len(d.pass.seats), "worker"))
	case d.contiguous:
		return fmt.Sprintf("its place in the list, %d of %d, now belongs to another worker", job+1, d.pass.list.Len())
	}
	return fmt.Sprintf("%s had a load of %d, and its part among %s is %d", at.Name, source.load, count(d.pass.sharing(), "worker"), at.load)
}

func (d Decision) whyNoSeat(source share) string {
	for _, worker := range d.pass.workers {
		if worker.Ordinal == source.ordinal && worker.State == Leaving {
			return fmt.Sprintf("%s gives up its jobs", worker.Name)
		}
	}
	return fmt.Sprintf("%s is gone", source.worker)
}

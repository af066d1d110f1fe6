package assign

import (
	"cmp"
	"slices"
)

// Share is the jobs of one worker, in the form in which revisions are stored and displayed.
type Share struct {
	Worker  string
	Ordinal int
	Jobs    []string // in list order
}

// Revision is the owner of each job, with the index used to compute the next revision.
type Revision struct {
	list      *Jobs
	shares    []share // by ordinal
	algorithm int     // of Hashed, else 0
}

type share struct {
	worker  string
	ordinal int
	jobs    []int32 // ascending positions in the list
	load    int
}

// Restore makes a revision from stored shares, or from the jobs that workers hold. A duplicate job stays with the lowest ordinal. The
// algorithm is the version of Hashed, and 0 for other strategies.
func Restore(stored []Share, algorithm int) *Revision {
	sorted := slices.Clone(stored)
	slices.SortStableFunc(sorted, func(a, b Share) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
	})
	total := 0
	for _, from := range stored {
		total += len(from.Jobs)
	}
	jobs, names := make([]Job, 0, total), make(map[string]struct{}, total)
	revision := &Revision{algorithm: algorithm}
	for _, from := range sorted {
		to := revision.shareOf(from)
		for _, name := range from.Jobs {
			job := Job{Name: name, Weight: 1}
			if refusal(job, names) == "" {
				names[name] = struct{}{}
				to.jobs = append(to.jobs, int32(len(jobs)))
				jobs = append(jobs, job)
			}
		}
		to.load = len(to.jobs)
	}
	revision.list = checked(jobs, names)
	return revision
}

// shareOf returns the last share if it has the ordinal already, and a new one otherwise.
func (r *Revision) shareOf(from Share) *share {
	if n := len(r.shares); n == 0 || r.shares[n-1].ordinal != from.Ordinal {
		r.shares = append(r.shares, share{worker: from.Worker, ordinal: from.Ordinal})
	}
	return &r.shares[len(r.shares)-1]
}

// Algorithm returns the version of Hashed that made the revision, 0 for other strategies.
func (r *Revision) Algorithm() int { return r.algorithm }

// Shares returns all workers and their jobs, by ordinal.
func (r *Revision) Shares() []Share {
	if r == nil {
		return nil
	}
	shares := make([]Share, len(r.shares))
	for n := range r.shares {
		shares[n] = r.named(n)
	}
	return shares
}

// Of returns the share of the worker with an ordinal.
func (r *Revision) Of(ordinal int) (Share, bool) {
	if r == nil {
		return Share{}, false
	}
	n, found := seek(r.shares, ordinal)
	if !found {
		return Share{}, false
	}
	return r.named(n), true
}

func (r *Revision) named(n int) Share {
	from := r.shares[n]
	jobs := make([]string, len(from.jobs))
	for i, at := range from.jobs {
		jobs[i] = r.list.jobs[at].Name
	}
	return Share{Worker: from.worker, Ordinal: from.ordinal, Jobs: jobs}
}

func seek(shares []share, ordinal int) (int, bool) {
	return slices.BinarySearchFunc(shares, ordinal, func(s share, ordinal int) int { return cmp.Compare(s.ordinal, ordinal) })
}

// on translates the revision to positions of another list, without jobs missing there, and returns the jobs that only that list has.
func (r *Revision) on(list *Jobs) (shares []share, added []int32) {
	if r == nil {
		return nil, nil
	}
	if r.list == list {
		return r.shares, nil
	}
	moved := r.list.shiftTo(list)
	if int(moved.head) == r.list.Len() {
		return r.shares, moved.added // jobs were only added at the end
	}
	shares = slices.Clone(r.shares)
	space := make([]int32, 0, moved.count(shares))
	for n := range shares {
		if moved.touches(shares[n].jobs) {
			begin := len(space)
			space = moved.append(space, shares[n].jobs)
			shares[n].jobs = space[begin:len(space):len(space)]
			shares[n].load = list.load(shares[n].jobs)
		}
	}
	return shares, moved.added
}

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
	list      *JobList
	shares    []indexedShare // by ordinal
	algorithm int            // of Hashed, else 0
}

type indexedShare struct {
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
	for _, share := range stored {
		total += len(share.Jobs)
	}
	jobs, names := make([]Job, 0, total), make(map[string]struct{}, total)
	revision := &Revision{algorithm: algorithm}
	for _, share := range sorted {
		to := revision.shareFor(share)
		for _, name := range share.Jobs {
			job := Job{Name: name, Weight: 1}
			if validateJob(job, names) == "" {
				names[name] = struct{}{}
				to.jobs = append(to.jobs, int32(len(jobs)))
				jobs = append(jobs, job)
			}
		}
		to.load = len(to.jobs)
	}
	revision.list = buildJobList(jobs, names)
	return revision
}

// shareFor returns the last share if it has the ordinal already, and a new one otherwise.
func (r *Revision) shareFor(from Share) *indexedShare {
	if n := len(r.shares); n == 0 || r.shares[n-1].ordinal != from.Ordinal {
		r.shares = append(r.shares, indexedShare{worker: from.Worker, ordinal: from.Ordinal})
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
		shares[n] = r.shareAt(n)
	}
	return shares
}

// ShareOf returns the share of the worker with an ordinal.
func (r *Revision) ShareOf(ordinal int) (Share, bool) {
	if r == nil {
		return Share{}, false
	}
	n, found := findShare(r.shares, ordinal)
	if !found {
		return Share{}, false
	}
	return r.shareAt(n), true
}

func (r *Revision) shareAt(n int) Share {
	from := r.shares[n]
	jobs := make([]string, len(from.jobs))
	for i, at := range from.jobs {
		jobs[i] = r.list.jobs[at].Name
	}
	return Share{Worker: from.worker, Ordinal: from.ordinal, Jobs: jobs}
}

func findShare(shares []indexedShare, ordinal int) (int, bool) {
	return slices.BinarySearchFunc(shares, ordinal, func(s indexedShare, ordinal int) int { return cmp.Compare(s.ordinal, ordinal) })
}

// translate translates the revision to positions of another list, without jobs missing there, and returns the jobs that only that list has.
func (r *Revision) translate(list *JobList) (shares []indexedShare, added []int32) {
	if r == nil {
		return nil, nil
	}
	if r.list == list {
		return r.shares, nil
	}
	diff := r.list.diff(list)
	if int(diff.head) == r.list.Len() {
		return r.shares, diff.added // jobs were only added at the end
	}
	shares = slices.Clone(r.shares)
	positions := make([]int32, 0, diff.countAffected(shares))
	for n := range shares {
		if diff.affects(shares[n].jobs) {
			start := len(positions)
			positions = diff.appendTranslated(positions, shares[n].jobs)
			shares[n].jobs = positions[start:len(positions):len(positions)]
			shares[n].load = list.load(shares[n].jobs)
		}
	}
	return shares, diff.added
}

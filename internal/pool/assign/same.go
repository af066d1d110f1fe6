package assign

import "slices"

// Same reports whether two revisions give the same jobs to the same ordinals, regardless of worker names.
func (r *Revision) Same(other *Revision) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.algorithm == other.algorithm && slices.EqualFunc(r.shares, other.shares, func(a, b indexedShare) bool {
		return a.ordinal == b.ordinal && r.sameJobs(a, b, other)
	})
}

func (r *Revision) sameJobs(a, b indexedShare, other *Revision) bool {
	if r.list == other.list {
		return slices.Equal(a.jobs, b.jobs)
	}
	return slices.EqualFunc(a.jobs, b.jobs, func(mine, theirs int32) bool {
		return r.list.jobs[mine].Name == other.list.jobs[theirs].Name
	})
}

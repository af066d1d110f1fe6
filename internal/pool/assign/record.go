package assign

import (
	"cmp"
	"slices"
)

// ListVersion is a version of a worker's list.
type ListVersion struct {
	Version int64
	Jobs    []string
}

// Record is what was published to a worker and what it has confirmed. A worker may hold any job of a list from the time the list is
// published until the worker confirms a later one, or no pod runs under its name.
//
// A record is a value, and must be stored before the lists in it are published.
type Record struct {
	Worker              string
	Ordinal             int
	PodUID              string        // of its pod, "" if there is none
	AcknowledgedVersion int64         // the version that this pod has confirmed
	Lists               []ListVersion // oldest first; the last one is currently published
	Overdue             bool          // its time to confirm has expired: it only holds back the jobs that it may hold
}

// WithList returns the record after a list was published.
func (r Record) WithList(version int64, jobs []string) Record {
	r.Lists = append(slices.Clip(r.Lists), ListVersion{Version: version, Jobs: slices.Clone(jobs)})
	return r
}

// WithAcknowledgement returns the record after a pod confirmed a version. It ignores confirmations by other pods, such as one at a reused
// address or the predecessor, and versions that were never published to this worker.
func (r Record) WithAcknowledgement(uid string, version int64) Record {
	at := slices.IndexFunc(r.Lists, func(e ListVersion) bool { return e.Version == version })
	if uid == "" || uid != r.PodUID || at < 0 {
		return r
	}
	r.AcknowledgedVersion, r.Lists = version, slices.Clone(r.Lists[at:])
	return r
}

// WithPod returns the record when a pod runs under the worker's name. A new pod may have started with any of the lists.
func (r Record) WithPod(uid string) Record {
	if uid != r.PodUID {
		r.PodUID, r.AcknowledgedVersion = uid, 0
	}
	return r
}

// WithoutPod returns the record when no pod was running under the worker's name after the last list was published: the next pod starts with
// that list. A container restart is not a vacancy.
func (r Record) WithoutPod() Record {
	r.PodUID, r.AcknowledgedVersion = "", 0
	r.Lists = slices.Clone(r.Lists[max(0, len(r.Lists)-1):])
	return r
}

// Current returns the list that is published now.
func (r Record) Current() []string {
	if len(r.Lists) == 0 {
		return nil
	}
	return r.Lists[len(r.Lists)-1].Jobs
}

// MayHold returns all jobs that the worker may hold: the published ones, then those of earlier lists.
func (r Record) MayHold() []string { return append(slices.Clone(r.Current()), r.unreleasedJobs()...) }

// unreleasedJobs returns the jobs of earlier lists that are not in the published one.
func (r Record) unreleasedJobs() []string {
	if len(r.Lists) < 2 {
		return nil
	}
	seen := setOf(r.Current())
	var jobs []string
	for _, list := range r.Lists[:len(r.Lists)-1] {
		for _, job := range list.Jobs {
			if !seen[job] {
				seen[job] = true
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}

// IsAcknowledged reports whether the worker has confirmed what is published, or has nothing to confirm.
func (r Record) IsAcknowledged() bool {
	switch {
	case len(r.Lists) == 0:
		return true
	case len(r.Lists) > 1:
		return false
	case r.PodUID == "":
		return len(r.Current()) == 0
	}
	return r.AcknowledgedVersion == r.Lists[0].Version
}

// BaseRevision returns the starting point for a new plan while another may be in progress: a job stays with the worker that may hold it,
// and all other jobs are where the previous plan wanted them.
func BaseRevision(previous *Revision, records []Record) *Revision {
	sorted := slices.Clone(records)
	slices.SortFunc(sorted, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
	})
	total := 0
	for _, record := range records {
		total += len(record.Current())
	}
	owned := make(map[string]bool, total)
	var shares []Share
	addShare := func(worker string, ordinal int, jobs []string) {
		share := Share{Worker: worker, Ordinal: ordinal}
		for _, job := range jobs {
			if !owned[job] {
				owned[job] = true
				share.Jobs = append(share.Jobs, job)
			}
		}
		shares = append(shares, share)
	}
	for _, record := range sorted {
		addShare(record.Worker, record.Ordinal, record.Current())
	}
	for _, record := range sorted {
		addShare(record.Worker, record.Ordinal, record.unreleasedJobs())
	}
	algorithm := 0
	if previous != nil {
		algorithm = previous.algorithm
		for _, share := range previous.Shares() {
			addShare(share.Worker, share.Ordinal, share.Jobs)
		}
	}
	return Restore(shares, algorithm)
}

func setOf(jobs []string) map[string]bool {
	set := make(map[string]bool, len(jobs))
	for _, job := range jobs {
		set[job] = true
	}
	return set
}

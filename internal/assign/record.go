package assign

import (
	"cmp"
	"slices"
)

// Edition is a worker's list at some version.
type Edition struct {
	Version int64
	Jobs    []string
}

// Record is what one worker was told and what it has confirmed. It may hold any job of any of its lists: from the moment a list
// is published until it confirms a later one, or nobody runs under its name.
//
// A record is a value, and is to be stored before what it says is published.
type Record struct {
	Worker       string
	Ordinal      int
	UID          string    // of its pod, "" for none
	Acknowledged int64     // the version that this pod has confirmed
	Lists        []Edition // oldest first; the last one is published now
	Overdue      bool      // it has had its time to confirm: nobody but the jobs that it may hold waits for it any longer
}

// Published is the record after a list was published.
func (r Record) Published(version int64, jobs []string) Record {
	r.Lists = append(slices.Clip(r.Lists), Edition{Version: version, Jobs: slices.Clone(jobs)})
	return r
}

// Confirmed is the record after a pod said that it has loaded a version. What another pod says, at a reused address or before it was
// replaced, counts for nothing; nor does a version that was never published to this worker.
func (r Record) Confirmed(uid string, version int64) Record {
	at := slices.IndexFunc(r.Lists, func(e Edition) bool { return e.Version == version })
	if uid == "" || uid != r.UID || at < 0 {
		return r
	}
	r.Acknowledged, r.Lists = version, slices.Clone(r.Lists[at:])
	return r
}

// Seen is the record when a pod runs under the worker's name. A pod that was not there before may have begun with any of the lists.
func (r Record) Seen(uid string) Record {
	if uid != r.UID {
		r.UID, r.Acknowledged = uid, 0
	}
	return r
}

// Vacant is the record when nobody runs under the worker's name, as was seen after the last list was published: whoever comes
// begins with that. A container that restarts is no vacancy.
func (r Record) Vacant() Record {
	r.UID, r.Acknowledged = "", 0
	r.Lists = slices.Clone(r.Lists[max(0, len(r.Lists)-1):])
	return r
}

// Current is the list that is published now.
func (r Record) Current() []string {
	if len(r.Lists) == 0 {
		return nil
	}
	return r.Lists[len(r.Lists)-1].Jobs
}

// MayHold are all jobs that the worker may hold: the published ones, then those of earlier lists.
func (r Record) MayHold() []string { return append(slices.Clone(r.Current()), r.clings()...) }

// clings are the jobs of earlier lists that the published one has no more.
func (r Record) clings() []string {
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

// Settled tells whether the worker has confirmed what is published, or has nothing to confirm.
func (r Record) Settled() bool {
	switch {
	case len(r.Lists) == 0:
		return true
	case len(r.Lists) > 1:
		return false
	case r.UID == "":
		return len(r.Current()) == 0
	}
	return r.Acknowledged == r.Lists[0].Version
}

// Basis is what a new plan begins with while another may be in flight: a job that somebody may hold is theirs, and only the others
// are where the previous plan wanted them.
func Basis(previous *Revision, records []Record) *Revision {
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
	take := func(worker string, ordinal int, jobs []string) {
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
		take(record.Worker, record.Ordinal, record.Current())
	}
	for _, record := range sorted {
		take(record.Worker, record.Ordinal, record.clings())
	}
	algorithm := 0
	if previous != nil {
		algorithm = previous.algorithm
		for _, share := range previous.Shares() {
			take(share.Worker, share.Ordinal, share.Jobs)
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

package pool

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// An ownershipCheck reads a journal line by line, and knows after each line which worker holds which jobs.
type ownershipCheck struct {
	recorder       *recorder
	holderByJob    map[string]journalEntry    // of jobs: the line by which each was started
	loadedVersions map[string]int64           // by pod, the version of its list that was acknowledged last
	deadPods       map[string]map[string]bool // pods that were gone when others began with their jobs
	forced         map[string]bool            // pods that were deleted by force: their processes may still run
	broken         []string                   // how the promise was broken
}

// checkOwnership goes through a journal. The order of its lines is that of what has happened; a stop is written when nothing of a job runs
// any more, and a start before anything does.
func checkOwnership(seen *recorder, lines []journalEntry, forced ...types.UID) *ownershipCheck {
	r := &ownershipCheck{recorder: seen, holderByJob: map[string]journalEntry{}, loadedVersions: map[string]int64{},
		deadPods: map[string]map[string]bool{}, forced: map[string]bool{}}
	for _, uid := range forced {
		r.forced[string(uid)] = true
	}
	for _, entry := range lines {
		switch entry.Event {
		case "boot":
			r.onBoot(entry)
		case "start":
			r.onStart(entry)
		case "stop":
			r.onStop(entry)
		case "acknowledge":
			r.loadedVersions[entry.PodUID] = entry.Version
		}
	}
	return r
}

// onBoot: the jobs of a pod have ended with its previous process.
func (r *ownershipCheck) onBoot(said journalEntry) {
	for job, holder := range r.holderByJob {
		if holder.PodUID == said.PodUID {
			delete(r.holderByJob, job)
		}
	}
}

// onStart: no other worker, dead or alive, may hold the job, unless its pod was gone before this one was allowed to have it.
func (r *ownershipCheck) onStart(entry journalEntry) {
	if holder, held := r.holderByJob[entry.Job]; held && holder.PodUID != entry.PodUID {
		gone, isGone := r.recorder.deletedAt(holder.PodUID)
		if !isGone || gone > r.recorder.grantedAt(entry, r.loadedVersions[entry.PodUID]) {
			r.broken = append(r.broken, fmt.Sprintf("two owners: %s, %s", holder, entry))
		}
		if r.deadPods[holder.PodUID] == nil {
			r.deadPods[holder.PodUID] = map[string]bool{}
		}
		r.deadPods[holder.PodUID][entry.Job] = true
	}
	r.holderByJob[entry.Job] = entry
}

// onStop: a pod that is gone has nothing to stop, since its processes end before it does.
func (r *ownershipCheck) onStop(entry journalEntry) {
	if r.deadPods[entry.PodUID][entry.Job] && !r.forced[entry.PodUID] {
		r.broken = append(r.broken, fmt.Sprintf("a pod that was gone still ran: %s", entry))
	}
	if r.holderByJob[entry.Job].PodUID == entry.PodUID {
		delete(r.holderByJob, entry.Job)
	}
}

// expectSingleOwners checks the promise: at no moment did two workers hold the same job.
func (s *testEnvironment) expectSingleOwners(ctx context.Context, forced ...types.UID) {
	GinkgoHelper()
	lines := s.journal(ctx)
	// Everything in the journal has happened, but not everything may have been observed yet.
	Eventually(func() []string { return checkOwnership(s.recorder, lines, forced...).broken }).WithContext(ctx).WithTimeout(timeout / 10).
		Should(BeEmpty())
}

// running returns which worker runs which job now, by the journal.
func (s *testEnvironment) running(ctx context.Context) (map[string]journalEntry, error) {
	lines, err := s.readJournal(ctx)
	return checkOwnership(s.recorder, lines).holderByJob, err
}

// stops are the jobs that were stopped in a part of the journal, with the UIDs of the pods that did.
func stops(lines []journalEntry) map[string][]string {
	stopped := map[string][]string{}
	for _, said := range lines {
		if said.Event == "stop" {
			stopped[said.Job] = append(stopped[said.Job], said.PodUID)
		}
	}
	return stopped
}

// hasEntry reports whether a line like this is in a journal.
func hasEntry(lines []journalEntry, event, worker, job string) bool {
	return slices.ContainsFunc(lines, func(said journalEntry) bool { return said.Event == event && said.Worker == worker && said.Job == job })
}

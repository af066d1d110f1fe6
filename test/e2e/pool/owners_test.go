package pool

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// A replay goes through a journal line by line, and knows after each which worker holds what.
type replay struct {
	seen    *chronicle
	holders map[string]line            // of jobs: the line by which each was started
	loaded  map[string]int64           // by pod, the version of its list that was acknowledged last
	past    map[string]map[string]bool // pods that were gone when others began with their jobs
	forced  map[string]bool            // pods that were deleted by force: their processes may still run
	broken  []string                   // how the promise was broken
}

// replayed goes through a journal. The order of its lines is that of what has happened; a stop is written when nothing of a job runs any
// more, and a start before anything does.
func replayed(seen *chronicle, lines []line, forced ...types.UID) *replay {
	r := &replay{seen: seen, holders: map[string]line{}, loaded: map[string]int64{}, past: map[string]map[string]bool{}, forced: map[string]bool{}}
	for _, uid := range forced {
		r.forced[string(uid)] = true
	}
	for _, said := range lines {
		switch said.Event {
		case "boot":
			r.booted(said)
		case "start":
			r.started(said)
		case "stop":
			r.stopped(said)
		case "acknowledge":
			r.loaded[said.PodUID] = said.Version
		}
	}
	return r
}

// booted: what a pod has held has ended with its process.
func (r *replay) booted(said line) {
	for job, holder := range r.holders {
		if holder.PodUID == said.PodUID {
			delete(r.holders, job)
		}
	}
}

// started: no other worker, dead or alive, may hold the job, unless its pod was gone before this one was allowed to have it.
func (r *replay) started(said line) {
	if holder, held := r.holders[said.Job]; held && holder.PodUID != said.PodUID {
		gone, isGone := r.seen.gone(holder.PodUID)
		if !isGone || gone > r.seen.granted(said, r.loaded[said.PodUID]) {
			r.broken = append(r.broken, fmt.Sprintf("two owners: %s, %s", holder, said))
		}
		if r.past[holder.PodUID] == nil {
			r.past[holder.PodUID] = map[string]bool{}
		}
		r.past[holder.PodUID][said.Job] = true
	}
	r.holders[said.Job] = said
}

// stopped: a pod that was gone has nothing to stop, since its processes end before it does.
func (r *replay) stopped(said line) {
	if r.past[said.PodUID][said.Job] && !r.forced[said.PodUID] {
		r.broken = append(r.broken, fmt.Sprintf("a pod that was gone still ran: %s", said))
	}
	if r.holders[said.Job].PodUID == said.PodUID {
		delete(r.holders, said.Job)
	}
}

// proveSingleOwners checks the promise: at no moment did two workers hold the same job.
func (s *stage) proveSingleOwners(ctx context.Context, forced ...types.UID) {
	GinkgoHelper()
	lines := s.journal(ctx)
	// Everything in the journal has happened, but not everything may have been observed yet.
	Eventually(func() []string { return replayed(s.seen, lines, forced...).broken }).WithContext(ctx).WithTimeout(patience / 10).Should(BeEmpty())
}

// running returns which worker runs which job now, by the journal.
func (s *stage) running(ctx context.Context) (map[string]line, error) {
	lines, err := s.heard(ctx)
	return replayed(s.seen, lines).holders, err
}

// stops are the jobs that were stopped in a part of the journal, with the UIDs of the pods that did.
func stops(lines []line) map[string][]string {
	stopped := map[string][]string{}
	for _, said := range lines {
		if said.Event == "stop" {
			stopped[said.Job] = append(stopped[said.Job], said.PodUID)
		}
	}
	return stopped
}

// says reports whether a line like this is in a journal.
func says(lines []line, event, worker, job string) bool {
	return slices.ContainsFunc(lines, func(said line) bool { return said.Event == event && said.Worker == worker && said.Job == job })
}

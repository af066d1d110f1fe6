package assign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// editJobs returns a list after a few changes, with the same names in memory or with copies of them.
func editJobs(t *rapid.T, jobs []Job) []Job {
	jobs = slices.Clone(jobs)
	for n := range rapid.IntRange(0, 3).Draw(t, "changes") {
		at := rapid.IntRange(0, len(jobs)).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			jobs = slices.Insert(jobs, at, Job{Name: fmt.Sprint("new-", n), Weight: 1})
		case 1:
			jobs = slices.Delete(jobs, at, min(at+rapid.IntRange(0, 9).Draw(t, "gone"), len(jobs)))
		case 2:
			if at < len(jobs) {
				jobs[at].Weight++
			}
		case 3:
			slices.Reverse(jobs[at:min(at+5, len(jobs))])
		}
	}
	if rapid.Bool().Draw(t, "read anew") {
		for n := range jobs {
			jobs[n].Name = strings.Clone(jobs[n].Name)
		}
	}
	return jobs
}

// Comparing many jobs at a time gives the same result as comparing each.
func TestCommonEndsInBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := equalJobs(rapid.IntRange(0, 4*blockSize).Draw(t, "n"))
		jobs := editJobs(t, old)
		head, tail := 0, 0
		shorter := min(len(old), len(jobs))
		for head < shorter && old[head] == jobs[head] {
			head++
		}
		for tail < shorter-head && old[len(old)-1-tail] == jobs[len(jobs)-1-tail] {
			tail++
		}
		if gotHead, gotTail := commonEnds(old, jobs); gotHead != head || gotTail != tail {
			t.Fatalf("got %d and %d, want %d and %d", gotHead, gotTail, head, tail)
		}
	})
}

// A plan with kept indexes equals the plan without any.
func TestCachedIndexesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := newTestList(t, equalJobs(rapid.IntRange(0, 4*blockSize).Draw(t, "n"))...)
		capacity := rapid.SampledFrom([]int{0, 0, 20}).Draw(t, "capacity")
		workers := func() []Worker {
			workers := readyWorkers(rapid.IntRange(0, 12).Draw(t, "workers"))
			for n := range workers {
				workers[n].Capacity = capacity
				workers[n].State = rapid.SampledFrom([]State{Ready, Ready, Ready, NotReady, Leaving}).Draw(t, "state")
			}
			return workers
		}
		previous := Plan(Input{Jobs: list, Workers: workers()}).Next
		for range 3 {
			jobs := editJobs(t, list.jobs)
			next, problems := list.Next(jobs)
			if len(problems) > 0 {
				continue // the new job was in the list already
			}
			in := Input{Jobs: next, Workers: workers(), Previous: previous}
			kept := Plan(in)
			requireValid(t, in, kept)
			requireMovesMatch(t, in, kept)
			in.Jobs, in.Previous = newTestList(t, jobs...), Restore(previous.Shares(), 0)
			if fresh := Plan(in); !slices.EqualFunc(kept.Next.Shares(), fresh.Next.Shares(), equalShares) ||
				!slices.Equal(kept.Unassigned, fresh.Unassigned) {
				t.Fatalf("kept: %v %v\nfresh: %v %v", kept.Next.Shares(), kept.Unassigned, fresh.Next.Shares(), fresh.Unassigned)
			}
			list, previous = next, kept.Next
		}
	})
}

// A job that was unassigned before is still considered when a new job is added.
func TestUnassignedJobsAreReconsidered(t *testing.T) {
	workers := func(capacity int) []Worker {
		workers := readyWorkers(4)
		for n := range workers {
			workers[n].Capacity = capacity
		}
		return workers
	}
	list := newTestList(t, equalJobs(100)...)
	first := Plan(Input{Jobs: list, Workers: workers(24)})
	if len(first.Unassigned) != 4 {
		t.Fatalf("%d jobs are unassigned, and 96 fit", len(first.Unassigned))
	}
	next, _ := list.Next(equalJobs(101))
	in := Input{Jobs: next, Workers: workers(30), Previous: first.Next}
	decision := Plan(in)
	requireValid(t, in, decision)
	if len(decision.Unassigned) > 0 {
		t.Errorf("there is room for %v", decision.Unassigned)
	}
}

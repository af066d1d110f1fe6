package assign

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// testingT is the common interface of tests, properties and fuzzing.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newTestList(t testingT, jobs ...Job) *JobList {
	t.Helper()
	list, problems := NewJobList(jobs)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return list
}

// equalJobs returns n jobs of weight 1.
func equalJobs(n int) []Job {
	jobs := make([]Job, n)
	for at := range jobs {
		jobs[at] = Job{Name: fmt.Sprint("job-", at), Weight: 1}
	}
	return jobs
}

// readyWorkers returns n ready workers.
func readyWorkers(n int) []Worker {
	workers := make([]Worker, n)
	for at := range workers {
		workers[at] = Worker{Name: fmt.Sprint("w-", at), Ordinal: at}
	}
	return workers
}

func golden27(t testing.TB) []Job {
	t.Helper()
	content, err := os.ReadFile("testdata/pool-27-jobs.txt")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []Job
	for name := range strings.FieldsSeq(string(content)) {
		jobs = append(jobs, Job{Name: name, Weight: 1})
	}
	return jobs
}

// jobCounts returns the number of jobs per worker.
func jobCounts(revision *Revision) []int {
	counts := []int{}
	for _, share := range revision.Shares() {
		counts = append(counts, len(share.Jobs))
	}
	return counts
}

// countRelocated counts the jobs that were taken from a worker and are still in the list.
func countRelocated(decision Decision) int {
	count := 0
	for _, move := range decision.Moves() {
		if move.From != "" && move.Reason != "it is no longer in the list" {
			count++
		}
	}
	return count
}

// requireValid fails unless every job is unassigned with a reason, or on exactly one worker with enough capacity.
func requireValid(t testingT, in Input, decision Decision) {
	t.Helper()
	decisions, jobsByName := map[string]int{}, map[string]Job{}
	for _, job := range in.Jobs.jobs {
		jobsByName[job.Name] = job
	}
	for n, share := range decision.Next.Shares() {
		for _, job := range share.Jobs {
			decisions[job]++
		}
		requireValidShare(t, in, share, jobsByName)
		if !slices.IsSorted(decision.Next.shares[n].jobs) || loadOf(share, jobsByName) != decision.Next.shares[n].load {
			t.Fatalf("not in list order, or load %d is wrong: %v", decision.Next.shares[n].load, share)
		}
	}
	for _, job := range decision.Unassigned {
		decisions[job.Job]++
		if job.Reason == "" {
			t.Fatalf("%s is unassigned without a reason", job.Job)
		}
	}
	for _, job := range in.Jobs.jobs {
		if decisions[job.Name] != 1 {
			t.Fatalf("%s was decided %d times", job.Name, decisions[job.Name])
		}
	}
	if len(decisions) != in.Jobs.Len() {
		t.Fatalf("%d jobs were decided, there are %d", len(decisions), in.Jobs.Len())
	}
}

// requireValidShare fails unless the worker may have its jobs.
func requireValidShare(t testingT, in Input, share Share, jobsByName map[string]Job) {
	t.Helper()
	worker := in.Workers[slices.IndexFunc(in.Workers, func(w Worker) bool { return w.Ordinal == share.Ordinal })]
	if load := loadOf(share, jobsByName); worker.State == Leaving || worker.Capacity > 0 && load > worker.Capacity {
		t.Fatalf("%v carries %d: %v", worker, load, share)
	}
	for _, job := range share.Jobs {
		if jobsByName[job].Dedicated && len(share.Jobs) > 1 {
			t.Fatalf("%s is dedicated and not alone: %v", job, share)
		}
	}
}

func loadOf(share Share, jobsByName map[string]Job) (load int) {
	for _, job := range share.Jobs {
		load += int(jobsByName[job].Weight)
	}
	return load
}

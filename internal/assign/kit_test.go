package assign

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// failing is the common interface of tests, properties and fuzzing.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

func listOf(t failing, jobs ...Job) *Jobs {
	t.Helper()
	list, problems := List(jobs)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return list
}

// equal returns n jobs of weight 1.
func equal(n int) []Job {
	jobs := make([]Job, n)
	for at := range jobs {
		jobs[at] = Job{Name: fmt.Sprint("job-", at), Weight: 1}
	}
	return jobs
}

// crew returns n ready workers.
func crew(n int) []Worker {
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

// sizes returns the number of jobs per worker.
func sizes(revision *Revision) []int {
	counts := []int{}
	for _, share := range revision.Shares() {
		counts = append(counts, len(share.Jobs))
	}
	return counts
}

// relocated counts the jobs that were taken from a worker and are still in the list.
func relocated(decision Decision) int {
	count := 0
	for _, move := range decision.Moves() {
		if move.From != "" && move.Reason != "it is no longer in the list" {
			count++
		}
	}
	return count
}

// sound fails unless every job is unassigned with a reason, or on exactly one worker with enough capacity.
func sound(t failing, in Input, decision Decision) {
	t.Helper()
	seen, known := map[string]int{}, map[string]Job{}
	for _, job := range in.Jobs.jobs {
		known[job.Name] = job
	}
	for n, share := range decision.Next.Shares() {
		for _, job := range share.Jobs {
			seen[job]++
		}
		soundShare(t, in, share, known)
		if !slices.IsSorted(decision.Next.shares[n].jobs) || loadOf(share, known) != decision.Next.shares[n].load {
			t.Fatalf("not in list order, or load %d is wrong: %v", decision.Next.shares[n].load, share)
		}
	}
	for _, job := range decision.Unassigned {
		seen[job.Job]++
		if job.Reason == "" {
			t.Fatalf("%s is unassigned without a reason", job.Job)
		}
	}
	for _, job := range in.Jobs.jobs {
		if seen[job.Name] != 1 {
			t.Fatalf("%s was decided %d times", job.Name, seen[job.Name])
		}
	}
	if len(seen) != in.Jobs.Len() {
		t.Fatalf("%d jobs were decided, there are %d", len(seen), in.Jobs.Len())
	}
}

// soundShare fails unless the worker may have its jobs.
func soundShare(t failing, in Input, share Share, known map[string]Job) {
	t.Helper()
	worker := in.Workers[slices.IndexFunc(in.Workers, func(w Worker) bool { return w.Ordinal == share.Ordinal })]
	if load := loadOf(share, known); worker.State == Leaving || worker.Capacity > 0 && load > worker.Capacity {
		t.Fatalf("%v carries %d: %v", worker, load, share)
	}
	for _, job := range share.Jobs {
		if known[job].Dedicated && len(share.Jobs) > 1 {
			t.Fatalf("%s is dedicated and not alone: %v", job, share)
		}
	}
}

func loadOf(share Share, known map[string]Job) (load int) {
	for _, job := range share.Jobs {
		load += int(known[job].Weight)
	}
	return load
}

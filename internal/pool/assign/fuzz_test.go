package assign

import (
	"fmt"
	"slices"
	"testing"
)

// FuzzPlan makes a history from bytes: each byte is one change, and every intermediate plan must be sound and final.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{0, 27, 64, 3, 128, 5}, uint8(0))
	f.Add([]byte{0, 27, 64, 1, 64, 0, 64, 12, 192, 7}, uint8(2))
	f.Add([]byte{1, 9, 65, 4, 130, 66, 2, 195, 250}, uint8(1))
	f.Fuzz(func(t *testing.T, changes []byte, strategy uint8) {
		in := Input{Strategy: strategies[int(strategy)%len(strategies)], Workers: readyWorkers(2)}
		jobs := equalJobs(5)
		for at := 0; at+1 < len(changes) && at < 40; at += 2 {
			jobs = applyChange(&in, slices.Clone(jobs), changes[at], int(changes[at+1]))
			in.Jobs = newTestList(t, jobs...)
			decision := Plan(in)
			requireValid(t, in, decision)
			in.Previous = decision.Next
			if again := Plan(in); len(again.Moves()) > 0 {
				t.Fatalf("assigning again moves %v", again.Moves())
			}
		}
	})
}

func applyChange(in *Input, jobs []Job, kind byte, value int) []Job {
	switch {
	case kind < 64:
		return equalJobs(value % 60)
	case kind < 128:
		in.Workers = readyWorkers(value % 20)
	case kind < 192 && len(jobs) > 0:
		job := &jobs[int(kind)%len(jobs)]
		job.Weight, job.Dedicated = int32(1+value%50), value%7 == 0
	case len(in.Workers) > 0:
		worker := &in.Workers[int(kind)%len(in.Workers)]
		worker.Capacity, worker.State, worker.Ordinal = value%5*10, State(value%3), worker.Ordinal+value/100*100
	}
	return jobs
}

// FuzzJump checks the integer form of jump hash: adding a bucket moves keys only to that bucket.
func FuzzJump(f *testing.F) {
	f.Add(uint64(1), 1)
	f.Add(uint64(1<<63), 10_000)
	f.Fuzz(func(t *testing.T, key uint64, buckets int) {
		buckets = max(1, buckets%100_000)
		before, after := jumpHash(key, buckets), jumpHash(key, buckets+1)
		if before < 0 || before >= buckets || after != before && after != buckets {
			t.Fatalf("%d of %d, then %d", before, buckets, after)
		}
	})
}

// FuzzJobList checks arbitrary names: names in a list are unique, however it was made.
func FuzzJobList(f *testing.F) {
	f.Add("a b c", "a b b")
	f.Add("", "x y\x00 z")
	f.Fuzz(func(t *testing.T, first, second string) {
		one, _ := NewJobList(jobsFromText(first))
		fresh, problems := NewJobList(jobsFromText(second))
		next, nextProblems := one.Next(jobsFromText(second))
		if !slices.Equal(fresh.jobs, next.jobs) || !slices.Equal(problems, nextProblems) {
			t.Fatalf("from scratch %v %v, from another %v %v", fresh.jobs, problems, next.jobs, nextProblems)
		}
		in := Input{Jobs: next, Workers: readyWorkers(3), Previous: Plan(Input{Jobs: one, Workers: readyWorkers(2)}).Next}
		requireValid(t, in, Plan(in))
	})
}

func jobsFromText(text string) (jobs []Job) {
	for n := range len(text) {
		jobs = append(jobs, Job{Name: fmt.Sprintf("%.2q", text[n:]), Weight: 1})
	}
	return jobs
}

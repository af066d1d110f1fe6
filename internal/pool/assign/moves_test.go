package assign

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

// Compares Sticky with an exhaustive search: no complete and balanced assignment moves fewer jobs.
func TestStickyMovesTheMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.SampledFrom([]int{0, 0, 2, 3}).Draw(t, "capacity")
		in := Input{Jobs: newTestList(t, equalJobs(rapid.IntRange(0, 6).Draw(t, "n"))...),
			Workers: readyWorkers(rapid.IntRange(1, 4).Draw(t, "w"))}
		for n := range in.Workers {
			in.Workers[n].Capacity = capacity
		}
		// Any history, balanced or not. The worker with ordinal 4 is gone.
		stored := make([]Share, 5)
		for n := range stored {
			stored[n].Ordinal = n
		}
		for _, job := range in.Jobs.jobs {
			if owner := rapid.IntRange(-1, 4).Draw(t, "owner"); owner >= 0 {
				stored[owner].Jobs = append(stored[owner].Jobs, job.Name)
			}
		}
		in.Previous = Restore(stored, 0)
		decision := Plan(in)
		requireValid(t, in, decision)
		got := countKept(in, ownersOf(decision.Next))
		if best := maxKept(in, capacity); got != best {
			t.Fatalf("kept %d, and %d could have stayed: %v to %v", got, best, stored, decision.Next.Shares())
		}
	})
}

// countKept counts the jobs that did not move.
func countKept(in Input, after map[string]int) (same int) {
	for job, owner := range ownersOf(in.Previous) {
		if after[job] == owner {
			same++
		}
	}
	return same
}

// maxKept tries all assignments that place as many jobs as there is room for, with loads that differ by at most one.
func maxKept(in Input, capacity int) (best int) {
	jobs, workers := in.Jobs.Len(), len(in.Workers)
	if capacity == 0 {
		capacity = jobs
	}
	before := ownersOf(in.Previous)
	loads := make([]int, workers)
	var try func(job, same, placed int)
	try = func(job, same, placed int) {
		if job == jobs {
			if placed == min(jobs, workers*capacity) && slices.Max(loads)-slices.Min(loads) <= 1 {
				best = max(best, same)
			}
			return
		}
		try(job+1, same, placed)
		for w := range workers {
			if loads[w] == capacity {
				continue
			}
			loads[w]++
			kept := 0
			if before[in.Jobs.jobs[job].Name] == w+1 {
				kept = 1
			}
			try(job+1, same+kept, placed+1)
			loads[w]--
		}
	}
	try(0, 0, 0)
	return best
}

// Checks the bound on moves of each strategy when a pool is scaled.
func TestScalingMovesFewJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, from, to := rapid.IntRange(1, 300).Draw(t, "n"), rapid.IntRange(1, 40).Draw(t, "from"), rapid.IntRange(1, 40).Draw(t, "to")
		in := Input{Jobs: newTestList(t, equalJobs(n)...), Workers: readyWorkers(from)}
		first := Plan(in)
		in.Previous, in.Workers = first.Next, readyWorkers(to)
		decision := Plan(in)
		// Growing: exactly the jobs of the new workers. Shrinking: exactly the jobs of the removed ones.
		needed := 0
		larger := decision.Next
		if to < from {
			larger = first.Next
		}
		for _, count := range jobCounts(larger)[min(from, to):] {
			needed += count
		}
		if got := countRelocated(decision); got != needed {
			t.Fatalf("Sticky moved %d, %d were needed", got, needed)
		}
		// Contiguous: at most all jobs except those of the first worker's smaller piece.
		in.Strategy = Contiguous
		in.Previous = Plan(Input{Jobs: in.Jobs, Workers: readyWorkers(from), Strategy: Contiguous}).Next
		if got := countRelocated(Plan(in)); got > n-n/max(from, to) {
			t.Fatalf("Contiguous moved %d of %d", got, n)
		}
	})
}

// Hashed has no fixed bound; at the sizes that it is made for, it moves a small multiple of the minimum.
func TestHashedMovesFewJobs(t *testing.T) {
	const jobs, workers = 20_000, 200
	list := newTestList(t, equalJobs(jobs)...)
	weighted := slices.Clone(list.jobs)
	for n := range weighted {
		weighted[n].Weight = int32(1 + n*n%9)
	}
	for _, c := range []struct {
		list      *JobList
		imbalance int
		most      int // in tenths of the minimum
	}{
		{list, 5, 35}, {list, 10, 20}, {newTestList(t, weighted...), 5, 40},
	} {
		middle := slices.Delete(readyWorkers(workers), workers/2, workers/2+1)
		for _, after := range [][]Worker{readyWorkers(workers + 1), readyWorkers(workers - 1), middle} {
			in := Input{Jobs: c.list, Workers: readyWorkers(workers), Strategy: Hashed, ImbalancePercent: c.imbalance}
			in.Previous, in.Workers = Plan(in).Next, after
			moved := countRelocated(Plan(in))
			t.Logf("weight %d, %d %%, %d workers after %d: %d moves, the minimum is %d", c.list.uniformWeight, c.imbalance, len(after), workers,
				moved, jobs/workers)
			if moved*10 > c.most*jobs/workers {
				t.Errorf("that is more than %d.%d times the minimum", c.most/10, c.most%10)
			}
		}
	}
}

func ExampleDecision_Moves() {
	list, _ := NewJobList([]Job{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}, {Name: "d", Weight: 1}})
	first := Plan(Input{Jobs: list, Workers: []Worker{{Name: "w-0"}}})
	second := Plan(Input{Jobs: list, Workers: []Worker{{Name: "w-0"}, {Name: "w-1", Ordinal: 1}}, Previous: first.Next})
	for _, move := range second.Moves() {
		fmt.Printf("%s: %s -> %s, because %s\n", move.Job, move.From, move.To, move.Reason)
	}
	// Output:
	// c: w-0 -> w-1, because w-0 had a load of 4, and its part among 2 workers is 2
	// d: w-0 -> w-1, because w-0 had a load of 4, and its part among 2 workers is 2
}

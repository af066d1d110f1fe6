package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var strategies = []Strategy{Sticky, Contiguous, Hashed}

func drawJobs(t *rapid.T, label string) []Job {
	names := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
		for n := range 30 {
			if !yield(n) {
				return
			}
		}
	})).Draw(t, label)
	heaviest := rapid.SampledFrom([]int32{1, 1, 5, 100}).Draw(t, "heaviest")
	var jobs []Job
	for _, name := range names[:rapid.IntRange(0, len(names)).Draw(t, "jobs")] {
		jobs = append(jobs, Job{
			Name: fmt.Sprint("job-", name), Weight: rapid.Int32Range(1, heaviest).Draw(t, "weight"),
			Dedicated: rapid.IntRange(0, 9).Draw(t, "dedicated") == 0,
		})
	}
	return jobs
}

func drawWorkers(t *rapid.T) []Worker {
	capacities := rapid.SampledFrom([][]int{{0}, {0}, {20}, {3, 50}, {0, 7, 20}}).Draw(t, "capacities")
	var workers []Worker
	for _, ordinal := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 10, rapid.ID).Draw(t, "ordinals") {
		workers = append(workers, Worker{
			Name: fmt.Sprint("w-", ordinal), Ordinal: ordinal, Capacity: rapid.SampledFrom(capacities).Draw(t, "capacity"),
			State: rapid.SampledFrom([]State{Ready, Ready, Ready, Ready, NotReady, Leaving}).Draw(t, "state"),
		})
	}
	return workers
}

// For any history of a pool: no job is lost or duplicated, the input order does not matter, and assigning again moves nothing.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var previous *Revision
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			in := Input{
				Jobs: newTestList(t, drawJobs(t, "names")...), Workers: drawWorkers(t), Previous: previous,
				Strategy: rapid.SampledFrom(strategies).Draw(t, "strategy"), ImbalancePercent: rapid.IntRange(0, 100).Draw(t, "imbalance"),
			}
			decision := Plan(in)
			requireValid(t, in, decision)
			requireMovesMatch(t, in, decision)
			requireOrderIndependence(t, in, decision)
			requireStability(t, in, decision)
			previous = decision.Next
		}
	})
}

func ownersOf(revision *Revision) map[string]int {
	owners := map[string]int{}
	for _, share := range revision.Shares() {
		for _, job := range share.Jobs {
			owners[job] = share.Ordinal + 1
		}
	}
	return owners
}

// requireMovesMatch fails unless the moves are exactly the differences.
func requireMovesMatch(t *rapid.T, in Input, decision Decision) {
	before, after := ownersOf(in.Previous), ownersOf(decision.Next)
	differ := 0
	for job, owner := range before {
		if after[job] != owner {
			differ++
		}
	}
	for job := range after {
		if before[job] == 0 {
			differ++
		}
	}
	moves := decision.Moves()
	if len(moves) != differ {
		t.Fatalf("%d jobs changed hands, moves: %v", differ, moves)
	}
	for _, move := range moves {
		if before[move.Job] == after[move.Job] || move.Reason == "" || (move.From == "") != (before[move.Job] == 0) ||
			(move.To == "") != (after[move.Job] == 0) {
			t.Fatalf("from %d to %d: %v", before[move.Job], after[move.Job], move)
		}
	}
}

func requireOrderIndependence(t *rapid.T, in Input, want Decision) {
	shuffle := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	in.Workers = slices.Clone(in.Workers)
	shuffle.Shuffle(len(in.Workers), func(i, j int) { in.Workers[i], in.Workers[j] = in.Workers[j], in.Workers[i] })
	in.Previous = Restore(in.Previous.Shares(), 0) // a stored revision is equivalent to a kept one
	if got := Plan(in); !slices.EqualFunc(got.Next.Shares(), want.Next.Shares(), equalShares) ||
		!slices.Equal(got.Unassigned, want.Unassigned) {
		t.Fatalf("shuffled: %v, before: %v", got.Next.Shares(), want.Next.Shares())
	}
	if in.Strategy != Hashed {
		return
	}
	jobs := slices.Clone(in.Jobs.jobs)
	shuffle.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	in.Jobs = newTestList(t, jobs...)
	got, owners := ownersOf(Plan(in).Next), ownersOf(want.Next)
	for _, job := range jobs {
		if got[job.Name] != owners[job.Name] {
			t.Fatalf("%s depends on the order of the list", job.Name)
		}
	}
}

func requireStability(t *rapid.T, in Input, decision Decision) {
	in.Previous = decision.Next
	again := Plan(in)
	if moves := again.Moves(); len(moves) > 0 || !slices.Equal(again.Unassigned, decision.Unassigned) {
		t.Fatalf("assigning again moves %v\nunassigned %v, before %v\n%v", moves, again.Unassigned, decision.Unassigned, decision.Next.Shares())
	}
}

// Equal jobs: every job once, and sizes differ by at most one, for any history.
func TestP03_PropertiesOfEqualJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var previous *Revision
		for range 3 {
			in := Input{
				Jobs: newTestList(t, equalJobs(rapid.IntRange(0, 200).Draw(t, "n"))...), Workers: readyWorkers(rapid.IntRange(1, 200).Draw(t, "w")),
				Strategy: rapid.SampledFrom([]Strategy{Sticky, Contiguous}).Draw(t, "strategy"), Previous: previous,
			}
			decision := Plan(in)
			requireValid(t, in, decision)
			if counts := jobCounts(decision.Next); slices.Max(counts)-slices.Min(counts) > 1 || len(decision.Unassigned) > 0 {
				t.Fatalf("%d jobs: %v", in.Jobs.Len(), counts)
			}
			previous = decision.Next
		}
	})
}

// Weighted jobs: the bounds of the package comment.
func TestP13_WeightedJobsAreBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var previous *Revision
		for range 3 {
			jobs := drawJobs(t, "names")
			for n := range jobs {
				jobs[n].Dedicated = false
			}
			in := Input{Jobs: newTestList(t, jobs...), Workers: readyWorkers(rapid.IntRange(1, 8).Draw(t, "w")),
				Strategy: rapid.SampledFrom(strategies).Draw(t, "strategy"), Previous: previous}
			decision := Plan(in)
			requireWithinBounds(t, in, decision)
			previous = decision.Next
		}
	})
}

func requireWithinBounds(t *rapid.T, in Input, decision Decision) {
	shares, list := decision.Next.shares, in.Jobs
	lowest := slices.MinFunc(shares, func(a, b indexedShare) int { return a.load - b.load }).load
	for _, share := range shares {
		largest := 0
		for _, job := range share.jobs {
			largest = max(largest, list.weightOf(job))
		}
		aboveMean := share.load*len(shares) > list.totalWeight+list.heaviest*len(shares)
		switch in.Strategy {
		case Sticky:
			if share.load-lowest > largest {
				t.Fatalf("%d is above %d by more than %d: %v", share.load, lowest, largest, decision.Next.Shares())
			}
		case Contiguous:
			if aboveMean {
				t.Fatalf("%d is too far above the mean: %v", share.load, decision.Next.Shares())
			}
		case Hashed:
			limit := ceilDiv(list.totalWeight*105, 100*len(shares))
			if list.uniformWeight == 0 {
				limit = roundUpToGrid(max(limit, list.heaviest))
			}
			if share.load > limit && aboveMean {
				t.Fatalf("%d is above %d and the mean: %v", share.load, limit, decision.Next.Shares())
			}
		}
	}
}

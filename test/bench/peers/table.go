package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// addedJobs is how many jobs are added to see how many move.
const addedJobs = 10

// row is the result of one contender at one scale.
type row struct {
	algorithm
	size            scale
	first, moreJobs time.Duration // from nothing, and for one more worker
	allocations     uint64        // from nothing
	balance         balance       // from nothing
	plus            change        // one more worker
	tail            change        // without the last worker
	middle          change        // without one in the middle
	double          change        // twice the workers, if that was tried
	jobs            change        // some more jobs
	rerun           int           // jobs that a second run places elsewhere
}

// changes are all changes that were measured.
func (r row) changes() []change { return []change{r.plus, r.tail, r.middle, r.double, r.jobs} }

// table measures contenders at a scale and prints them.
func table(size scale, candidates []algorithm) (rows []row) {
	jobs, workers := jobsOf(size.jobs+addedJobs), workersOf(size.workers)
	in, larger := poolOf(jobs[:size.jobs:size.jobs], workers), poolOf(jobs, workers)
	const titles = "\n%-25s %9s %9s %9s %6s %6s %8s %8s %8s %8s %8s %8s %6s"
	fmt.Printf(titles, size, "first", "+1 worker", "allo-", "max/", "idle", "moves", "-1 tail", "-1", "x2", "per job", "workers", "again")
	fmt.Printf(titles+"\n", "", "ms", "ms", "cations", "mean", "", "+1", "", "middle", "", "added", "touched", "")
	for _, a := range candidates {
		if a.maxSize > 0 && size.workers > a.maxSize {
			fmt.Printf("%-25s %9s %9s %9s %6s %6s%s %6s\n", a.name, "-", "-", "-", "-", "-", strings.Repeat("        -", 6), "-")
			continue
		}
		measured := a.measure(size, in, larger)
		fmt.Println(measured)
		rows = append(rows, measured)
	}
	return rows
}

// measure runs a contender through all changes.
func (c algorithm) measure(size scale, in, larger pool) row {
	n := size.workers
	measured := row{algorithm: c, size: size}
	var first, plus assignment
	first, measured.first, measured.allocations = c.measureTimes(size.repetitions, in, nil)
	owners := first.owners()
	measured.balance = balanceOf(owners, in.workers)
	after := in.withWorkers(workersOf(n + 1))
	plus, measured.moreJobs, _ = c.measureTimes(size.repetitions, after, &first)
	measured.plus = compare(owners, plus.owners(), after.workers, size.jobs/(n+1))
	try := func(in pool, minimum int) change {
		return compare(owners, c.prepare(in, &first)().owners(), in.workers, minimum)
	}
	measured.tail = try(in.withWorkers(workersOf(n-1)), size.jobs/n)
	measured.middle = try(in.withWorkers(slices.Delete(workersOf(n), n/2, n/2+1)), size.jobs/n)
	measured.jobs = try(larger, 0)
	if size.doubled {
		measured.double = try(in.withWorkers(workersOf(2*n)), size.jobs/2)
	}
	measured.rerun = differ(owners, c.prepare(c.samePool(in), nil)().owners())
	return measured
}

// samePool is the same pool, in another order where order must not matter.
func (c algorithm) samePool(in pool) pool {
	if !c.shuffled {
		return in
	}
	jobs, workers := asJobs(in.names), slices.Clone(in.workers)
	order := rand.New(rand.NewPCG(1, 2))
	order.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	order.Shuffle(len(workers), func(i, j int) { workers[i], workers[j] = workers[j], workers[i] })
	return poolOf(jobs, workers)
}

// String is a line of the table.
func (r row) String() string {
	return fmt.Sprintf("%-25s %9.2f %9.2f %9d %6.2f %6d %8s %8s %8s %8s %8.1f %8d %6d",
		r.name, milliseconds(r.first), milliseconds(r.moreJobs), r.allocations, r.balance.ratio, r.balance.idle,
		r.plus, r.tail, r.middle, r.double, float64(r.jobs.moves)/addedJobs, r.plus.touchedWorkers, r.rerun)
}

// balance is how evenly jobs are spread.
type balance struct {
	ratio  float64 // the largest load, in multiples of the mean
	idle   int
	spread int // between the largest load and the smallest
}

func balanceOf(owners []int32, workers []assign.Worker) balance {
	counts := map[int32]int{}
	for _, owner := range owners {
		counts[owner]++
	}
	var b balance
	least, largest := len(owners), 0
	for _, worker := range workers {
		count := counts[int32(worker.Ordinal)]
		least, largest = min(least, count), max(largest, count)
		if count == 0 {
			b.idle++
		}
	}
	b.ratio, b.spread = float64(largest)*float64(len(workers))/float64(len(owners)), largest-least
	return b
}

// change is what a change of the pool has moved.
type change struct {
	minimum        int // needed for balance
	moves          int
	touchedWorkers int // workers that lost or gained a job
	after          balance
}

func compare(before, after []int32, workers []assign.Worker, minimum int) change {
	c := change{minimum: minimum, after: balanceOf(after, workers)}
	touched := map[int32]bool{}
	for job, owner := range before {
		if after[job] != owner {
			c.moves++
			touched[owner], touched[after[job]] = true, true
		}
	}
	c.touchedWorkers = len(touched)
	return c
}

// String is the moves in multiples of the minimum.
func (c change) String() string {
	if c.minimum == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(c.moves)/float64(c.minimum))
}

func differ(one, other []int32) (jobs int) {
	for n := range one {
		if one[n] != other[n] {
			jobs++
		}
	}
	return jobs
}

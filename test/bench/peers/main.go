// Command peers measures the assign engine and the libraries that are used for the same purpose: in one process, one after the other, on
// the same jobs and workers. It prints a table for each size, then the targets.
//
// Counts that miss their target fail it: moves, allocations, loads, and any difference between two runs. Times never do, because
// machines differ; where a time is a ratio, the two were measured alternately. Run it with `make bench`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/swarm-io/swarm-operator/test/bench/report"
)

// scale is how much there is to assign.
type scale struct {
	jobs, workers int
	repetitions   int  // how often each contender is timed; the median counts
	doubled       bool // whether twice the workers are tried
}

// String is jobs over workers.
func (s scale) String() string { return short(s.jobs) + "/" + short(s.workers) }

func short(number int) string {
	switch {
	case number >= 1_000_000:
		return fmt.Sprintf("%dM", number/1_000_000)
	case number >= 1_000:
		return fmt.Sprintf("%dk", number/1_000)
	}
	return fmt.Sprint(number)
}

var (
	small  = scale{jobs: 10_000, workers: 100, repetitions: 5}
	medium = scale{jobs: 100_000, workers: 1_000, repetitions: 3, doubled: true}
	large  = scale{jobs: 1_000_000, workers: 10_000, repetitions: 1}
)

func main() {
	results := flag.String("results", "../results.json", "file for the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *results)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// measuredPackage is the folder whose code the numbers depend on. Numbers of code that has changed since are stale.
const measuredPackage = "internal/pool/assign"

func run(ctx context.Context, results string) error {
	kept, err := report.New(ctx, "assign", measuredPackage)
	if err != nil {
		return err
	}
	b := bench{report: kept}
	var rows []row
	for _, size := range []scale{small, medium, large} {
		rows = append(rows, table(size, algorithms)...)
	}
	fmt.Print("\nmoves in multiples of the least that balance allows; workers touched by one worker more; jobs that a second run puts elsewhere\n" +
		"(Hashed: with jobs and workers shuffled); - not tried, or not done within seconds; all but Sticky, Contiguous and Hashed are peers\n\n")
	b.reportCounts(rows)
	b.quick(rows)
	b.race()
	b.steps()
	b.allocations()
	b.handover()
	return b.report.Close(results)
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// changeRepetitions is how often a small change is made and undone.
const changeRepetitions = 7

// incrementalPool is a pool with small changes, with the indexes that a controller keeps.
type incrementalPool struct {
	list     *assign.JobList
	revision *assign.Revision
	workers  []assign.Worker
}

func newIncrementalPool(size scale) *incrementalPool {
	c := &incrementalPool{workers: workersOf(size.workers)}
	c.list, _ = assign.NewJobList(jobsOf(size.jobs))
	c.revision = assign.Plan(assign.Input{Jobs: c.list, Workers: c.workers}).Next
	return c
}

// jobs changes the list and plans.
func (c *incrementalPool) jobs(jobs []assign.Job) {
	list, _ := c.list.Next(jobs)
	c.list, c.revision = list, assign.Plan(assign.Input{Jobs: list, Workers: c.workers, Previous: c.revision}).Next
}

// setWorkers changes the workers and plans.
func (c *incrementalPool) setWorkers(workers []assign.Worker) {
	c.revision = assign.Plan(assign.Input{Jobs: c.list, Workers: workers, Previous: c.revision}).Next
}

// steps are the incremental changes at the largest size. One more worker is part of the race.
func (b bench) steps() {
	c, n := newIncrementalPool(large), large.workers
	crew := func(name string, changed []assign.Worker) {
		b.step(name, func() func() { return func() { c.setWorkers(changed) } }, func() { c.setWorkers(c.workers) })
	}
	crew("one worker less, in the middle", slices.Delete(workersOf(n), n/2, n/2+1))

	reconfigured := jobsOf(large.jobs)
	jobs := func(name string, edited func() []assign.Job) {
		b.step(name, func() func() {
			changed := edited()
			return func() { c.jobs(changed) }
		}, func() { c.jobs(slices.Clone(reconfigured)) })
	}
	c.jobs(slices.Clone(reconfigured))
	middle, more := len(reconfigured)/2, assign.Job{Name: "one more", Weight: 1}
	jobs("one job more, at the end", func() []assign.Job { return append(slices.Clone(reconfigured), more) })
	jobs("one job more, in the middle", func() []assign.Job { return slices.Insert(slices.Clone(reconfigured), middle, more) })
	jobs("one job less, in the middle", func() []assign.Job { return slices.Delete(slices.Clone(reconfigured), middle, middle+1) })
	jobs("one job less, all names read anew", func() []assign.Job {
		read := slices.Delete(slices.Clone(reconfigured), middle, middle+1)
		for n := range read {
			read[n].Name = strings.Clone(read[n].Name)
		}
		return read
	})
}

// step prepares a change, times it and undoes it, alternately.
func (b bench) step(name string, prepare func() func(), undo func()) {
	times := make([]time.Duration, changeRepetitions)
	for n := range times {
		times[n], _ = measure(prepare())
		undo()
	}
	b.report.Time(fmt.Sprintf("%s, %s, %s", sticky, large, name), milliseconds(median(times)), 5, "ms")
}

// allocations is the ratio of a plan's allocations with ten times as many jobs to those without.
func (b bench) allocations() {
	count := func(jobs int, change func(c *incrementalPool)) float64 {
		c := newIncrementalPool(scale{jobs: jobs, workers: medium.workers})
		least := uint64(1 << 62)
		for range 3 {
			_, allocated := measure(func() { change(c) })
			least = min(least, allocated)
		}
		return float64(least)
	}
	same := func(c *incrementalPool) {
		assign.Plan(assign.Input{Jobs: c.list, Workers: c.workers, Previous: c.revision})
	}
	few, many := count(medium.jobs, same), count(10*medium.jobs, same)
	b.report.Count(fmt.Sprintf("%s, nothing changed: allocations more for %s jobs than for %s", sticky, short(10*medium.jobs),
		short(medium.jobs)), many-few, 0, "allocs")
	larger := workersOf(medium.workers + 1)
	plus := func(c *incrementalPool) {
		assign.Plan(assign.Input{Jobs: c.list, Workers: larger, Previous: c.revision})
	}
	b.report.Count(fmt.Sprintf("%s, one worker more: allocations per thousand of %s jobs", sticky, short(10*medium.jobs)),
		1000*count(10*medium.jobs, plus)/float64(10*medium.jobs), 1, "allocs")
}

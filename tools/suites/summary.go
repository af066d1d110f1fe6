package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// slowest is how many specs the summary names.
const slowest = 15

// summarize prints the slowest specs, the time of each suite and lane, and the counts. It fails when a suite has failed or did not run.
func (r *runner) summarize(out io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeSlowest(out)
	slices.SortFunc(r.ended, func(a, b result) int { return cmp.Compare(b.duration, a.duration) })
	fmt.Fprintln(out, "\nSuites")
	var sum counts
	bad := len(r.waiting)
	for _, ended := range r.ended {
		fmt.Fprintf(out, "  %s\n", ended)
		sum = sum.add(ended.counts)
		if ended.hasFailed() {
			bad++
		}
	}
	for _, left := range r.waiting {
		fmt.Fprintf(out, "  %s: not run\n", left.name)
	}
	r.writeLanes(out)
	fmt.Fprintf(out, "\n%s\n", sum)
	if bad > 0 {
		return fmt.Errorf("%d of %d suites failed or did not run: see %s", bad, len(r.ended)+len(r.waiting), r.results("failures"))
	}
	return nil
}

func (r *runner) writeSlowest(out io.Writer) {
	type timed struct {
		spec
		suite string
	}
	var specs []timed
	for _, ended := range r.ended {
		for _, s := range ended.specs {
			specs = append(specs, timed{s, ended.name})
		}
	}
	slices.SortFunc(specs, func(a, b timed) int { return cmp.Compare(b.RunTime, a.RunTime) })
	fmt.Fprintf(out, "\nThe %d slowest specs\n", min(slowest, len(specs)))
	for _, s := range specs[:min(slowest, len(specs))] {
		fmt.Fprintf(out, "  %6.1fs  %s: %s\n", s.RunTime.Seconds(), s.suite, s.name())
	}
}

func (r *runner) writeLanes(out io.Writer) {
	slices.SortFunc(r.lanes, func(a, b laneTime) int { return cmp.Compare(a.lane, b.lane) })
	fmt.Fprintln(out, "\nLanes")
	for _, l := range r.lanes {
		fmt.Fprintf(out, "  lane %d: %s\n", l.lane, l.total.Round(time.Second))
	}
	fmt.Fprintf(out, "  all of it: %s\n", time.Since(r.start).Round(time.Second))
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

const sticky = "Sticky"

// bench reports the measures next to the targets of the design.
type bench struct {
	report *report.Report
}

// reportCounts are the counts: the same on every machine.
func (b bench) reportCounts(rows []row) {
	for _, r := range rows {
		if r.name != sticky {
			continue
		}
		worst, spread := 0, r.balance.spread
		for _, c := range r.changes() {
			worst += c.moves - c.minimum
			spread = max(spread, c.after.spread)
		}
		b.report.Count(fmt.Sprintf("%s, %s: moves beyond the minimum, all changes", r.name, r.size), float64(worst), 0, "moves")
		b.report.Count(fmt.Sprintf("%s, %s: largest difference of loads", r.name, r.size), float64(spread), 1, "jobs")
	}
	for _, strategy := range []assign.Strategy{assign.Sticky, assign.Contiguous, assign.Hashed} {
		different := 0
		for _, r := range rows {
			if strings.HasPrefix(r.name, string(strategy)) {
				different += r.rerun
			}
		}
		b.report.Count(fmt.Sprintf("%s: difference between two runs, all sizes", strategy), float64(different), 0, "jobs")
	}
}

// race runs Sticky and its nearest peer alternately.
func (b bench) race() {
	const rounds = 3
	in := poolOf(jobsOf(large.jobs), workersOf(large.workers))
	moreWorkers := in.withWorkers(workersOf(large.workers + 1))
	times := map[string][]time.Duration{}
	for range rounds {
		for _, algorithm := range algorithms {
			if algorithm.name != sticky && algorithm.name != kafka {
				continue
			}
			first, took, _ := algorithm.measureTimes(1, in, nil)
			_, plus, _ := algorithm.measureTimes(1, moreWorkers, &first)
			times[algorithm.name], times[algorithm.name+" +1"] = append(times[algorithm.name], took), append(times[algorithm.name+" +1"], plus)
		}
	}
	for _, change := range []struct {
		name, suffix string
		target       float64
	}{{"from nothing", "", 60}, {"one worker more", " +1", 5}} {
		ours, theirs := milliseconds(median(times[sticky+change.suffix])), milliseconds(median(times[kafka+change.suffix]))
		what := fmt.Sprintf("%s, %s, %s", sticky, large, change.name)
		b.report.Add(report.Line{Measure: what, Ours: ours, Target: change.target, Unit: "ms", Peer: &report.Peer{Name: kafka, Value: theirs}})
		b.report.Add(report.Line{Measure: what + ": faster than " + kafka, Ours: theirs / ours, Target: 8, AtLeast: true, Unit: "x"})
	}
}

// quick is the time limit of the smaller size.
func (b bench) quick(rows []row) {
	at := func(name string) row {
		return rows[slices.IndexFunc(rows, func(r row) bool { return r.size == small && r.name == name })]
	}
	ours, theirs := at(sticky), at(kafka)
	b.report.Add(report.Line{Measure: fmt.Sprintf("%s, %s, from nothing", sticky, small), Ours: milliseconds(ours.first), Target: 1,
		Unit: "ms",
		Peer: &report.Peer{Name: kafka, Value: milliseconds(theirs.first)}})
	b.report.Add(report.Line{Measure: fmt.Sprintf("%s, %s, one worker more", sticky, small), Ours: milliseconds(ours.moreJobs), Target: 1,
		Unit: "ms",
		Peer: &report.Peer{Name: kafka, Value: milliseconds(theirs.moreJobs)}})
}

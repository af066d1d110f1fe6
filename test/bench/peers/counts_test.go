package main

import (
	"testing"

	"github.com/swarm-io/swarm-operator/test/bench/report"
)

// Counts are the same on every machine, and ours take seconds: a change that makes one miss its target must not wait for the
// next benchmark. Times, the peers and the largest size are left to make bench.
func TestCountsMeetTheirTargets(t *testing.T) {
	r, err := report.New(t.Context(), "assign", measuredPackage)
	if err != nil {
		t.Fatal(err)
	}
	b := bench{report: r}
	var rows []row
	for _, size := range []scale{small, medium} {
		rows = append(rows, table(size, ourAlgorithms)...)
	}
	b.reportCounts(rows)
	b.allocations()
	b.handover()
	if err := r.Missed(); err != nil {
		t.Error(err)
	}
}

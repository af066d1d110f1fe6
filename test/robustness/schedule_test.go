package main

import (
	"slices"
	"testing"
	"time"
)

func faultsOf(seed uint64, faults mix, count int) (all []fault) {
	planned := newSchedule(seed, faults, agents)
	for range count {
		all = append(all, planned.next())
	}
	return all
}

func TestTheSameSeedGivesTheSameFaults(t *testing.T) {
	for _, faults := range []mix{ofAgents, ofLeaders} {
		one, again, other := faultsOf(7, faults, 200), faultsOf(7, faults, 200), faultsOf(8, faults, 200)
		if !slices.Equal(one, again) {
			t.Error("the same seed gave other faults")
		}
		if slices.Equal(one, other) {
			t.Error("another seed gave the same faults")
		}
	}
}

func TestAllKindsOfFaultsHappen(t *testing.T) {
	for _, faults := range []mix{ofAgents, ofLeaders} {
		seen, total := map[string]int{}, time.Duration(0)
		for _, one := range faultsOf(1, faults, 2000) {
			seen[one.kind]++
			total += one.after
			if one.agent < 0 || one.agent >= agents || one.long <= 0 || one.long > agentLease*3/2 {
				t.Fatalf("fault %s", one)
			}
		}
		for _, one := range faults.weights {
			if seen[one.kind] == 0 {
				t.Errorf("%s never happened", one.kind)
			}
		}
		if mean := total / 2000; mean < faults.pause*9/10 || mean > faults.pause*11/10 {
			t.Errorf("a fault every %s, want %s", mean, faults.pause)
		}
	}
}

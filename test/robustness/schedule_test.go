package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/swarm/topology"
)

func faultsOf(seed uint64, faults faultMix, count int) (result []fault) {
	planned := newSchedule(seed, faults, agents)
	for range count {
		result = append(result, planned.next())
	}
	return result
}

func TestTheSameSeedGivesTheSameFaults(t *testing.T) {
	for _, faults := range []faultMix{agentFaults, leaderFaults} {
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
	for _, faults := range []faultMix{agentFaults, leaderFaults} {
		counts, total := map[string]int{}, time.Duration(0)
		expectRounds(t, faults)
		for _, f := range faultsOf(1, faults, 2000) {
			counts[f.kind]++
			total += f.after
			if f.agent < 0 || f.agent >= agents || f.duration <= 0 || f.duration > agentLease*3/2 {
				t.Fatalf("fault %s", f)
			}
		}
		for _, f := range faults.weights {
			if counts[f.kind] == 0 {
				t.Errorf("%s never happened", f.kind)
			}
		}
		want := faults.pause + faults.calmTime/time.Duration(faults.pauses)
		if mean := total / 2000; mean < want*9/10 || mean > want*11/10 {
			t.Errorf("a fault every %s, want %s", mean, want)
		}
	}
}

// expectRounds checks that each round has every kind of fault as often as its weight says.
func expectRounds(t *testing.T, faults faultMix) {
	t.Helper()
	length := 0
	for _, w := range faults.weights {
		length += w.weight
	}
	for round := range slices.Chunk(faultsOf(1, faults, 3*length), length) {
		counts := map[string]int{}
		for _, w := range round {
			counts[w.kind]++
		}
		for _, w := range faults.weights {
			if counts[w.kind] != w.weight {
				t.Errorf("%d faults %s in a round, want %d", counts[w.kind], w.kind, w.weight)
			}
		}
	}
}

func TestRunWithoutEnoughFaultsFails(t *testing.T) {
	verdict := Verdict{Attempts: 10, Faults: map[string]int{}}
	for _, kind := range faultKinds() {
		verdict.Faults[kind] = 3
	}
	o := options{attempts: 10, faults: 3}
	if err := verdict.problem(o); err != nil {
		t.Error(err)
	}
	verdict.Faults[restartOperators] = 2
	if err := verdict.problem(o); err == nil || !strings.Contains(err.Error(), "restart-everything happened only 2 of 3 times") {
		t.Errorf("%v, want restart-everything to be missing", err)
	}
}

func TestDocumentationNamesEveryFault(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range faultKinds() {
		if !strings.Contains(string(page), "`"+kind+"`") {
			t.Errorf("docs/explanation/testing.md does not name the fault %s", kind)
		}
	}
}

func TestEveryTypeGetsALeaseThatDiffers(t *testing.T) {
	for _, kind := range kinds {
		if other := kind.otherLease(); other == kind.lease || other != agentLease && other != longLease {
			t.Errorf("type %s has a lease of %s, and gets %s", kind.name, kind.lease, other)
		}
	}
}

// The operator gives every type its part of the agents, the first ones one more; a fault of an agent without a pod would never happen.
func TestEveryAgentHasAPod(t *testing.T) {
	var names []string
	for kind, count := range topology.EvenCounts(agents, len(kinds)) {
		for ordinal := range count {
			names = append(names, fmt.Sprintf("%s-%s-%d", swarm, kinds[kind].name, ordinal))
		}
	}
	for agent := range agents {
		if !slices.Contains(names, podName(agent)) {
			t.Errorf("agent %d: %s is none of %v", agent, podName(agent), names)
		}
	}
}

package topology

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

func TestS04_MixDiffersByStrategy(t *testing.T) {
	if got := EvenCounts(6, 3); !slices.Equal(got, []int{2, 2, 2}) {
		t.Errorf("balanced: %v", got)
	}
	if got := WeightedCounts(6, []int{1, 4, 1}); !slices.Equal(got, []int{1, 4, 1}) {
		t.Errorf("specialized: %v", got)
	}
}

func TestS04_Deterministic(t *testing.T) {
	weights := []int{3, 1, 7, 7, 2}
	declared := slices.Clone(weights)
	want := map[int][2][]int{ // by number of agents: balanced, and specialized
		4:  {{1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}},
		13: {{3, 3, 3, 2, 2}, {2, 1, 5, 4, 1}},
		20: {{4, 4, 4, 4, 4}, {3, 1, 7, 7, 2}},
	}
	for range 100 {
		for agents, mix := range want {
			if got := EvenCounts(agents, len(weights)); !slices.Equal(got, mix[0]) {
				t.Fatalf("balanced, %d agents: %v, want %v", agents, got, mix[0])
			}
			if got := WeightedCounts(agents, weights); !slices.Equal(got, mix[1]) {
				t.Fatalf("specialized, %d agents: %v, want %v", agents, got, mix[1])
			}
		}
	}
	if !slices.Equal(weights, declared) {
		t.Errorf("weights are now %v", weights)
	}
}

func TestCountsOfFewAgents(t *testing.T) {
	for _, c := range []struct {
		reason    string
		got, want []int
	}{
		{"the first types have one more", EvenCounts(7, 3), []int{3, 2, 2}},
		{"fewer agents than types", EvenCounts(2, 3), []int{1, 1, 0}},
		{"no agents", EvenCounts(0, 3), []int{0, 0, 0}},
		{"every type gets one before any type gets two", WeightedCounts(3, []int{1, 100, 1}), []int{1, 1, 1}},
		{"too few for everybody: declared order", WeightedCounts(2, []int{1, 1, 100}), []int{1, 1, 0}},
		{"equal weights are even", WeightedCounts(7, []int{5, 5, 5}), []int{3, 2, 2}},
		{"largest remainder, ties to the first", WeightedCounts(11, []int{1, 1, 4}), []int{2, 2, 7}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if !slices.Equal(c.got, c.want) {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		})
	}
}

func TestCountsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := rapid.IntRange(0, 1000).Draw(t, "agents")
		weights := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 12).Draw(t, "weights")
		counts := WeightedCounts(agents, weights)
		if sum(counts) != agents || sum(EvenCounts(agents, len(weights))) != agents {
			t.Fatalf("%v does not add up to %d", counts, agents)
		}
		if agents >= len(weights) && slices.Contains(counts, 0) {
			t.Fatalf("a type gets none: %v", counts)
		}
		// A heavier type never has fewer agents than a lighter one declared after it.
		for n := range weights {
			for m := n + 1; m < len(weights); m++ {
				if weights[n] >= weights[m] && counts[n] < counts[m] {
					t.Fatalf("weights %v, counts %v", weights, counts)
				}
			}
		}
	})
}

package topology

import (
	"cmp"
	"slices"
)

// EvenCounts distributes agents over types one by one, in declared order: counts differ by at most one, and the first types have one more.
func EvenCounts(agents, types int) []int {
	counts := make([]int, types)
	for n := range counts {
		counts[n] = agents / types
		if n < agents%types {
			counts[n]++
		}
	}
	return counts
}

// WeightedCounts distributes agents by weight: every type gets one while agents suffice, in declared order, and the rest is distributed by
// largest remainder, ties going to the type declared first. Weights are above zero.
func WeightedCounts(agents int, weights []int) []int {
	counts := make([]int, len(weights))
	total := 0
	for n, weight := range weights {
		total += weight
		if n < agents {
			counts[n] = 1
		}
	}
	for remaining := agents - sum(counts); remaining > 0; remaining-- {
		counts[furthestBelowShare(agents, total, weights, counts)]++
	}
	return counts
}

// furthestBelowShare returns the type whose count is furthest below its exact share of the agents. Adding agents one by one to this type is
// the method of largest remainders, and remains correct if a type exceeds its share because every type gets one.
func furthestBelowShare(agents, total int, weights, counts []int) int {
	types := make([]int, len(weights))
	for n := range types {
		types[n] = n
	}
	deficit := func(n int) int { return agents*weights[n] - total*counts[n] }
	return slices.MaxFunc(types, func(a, b int) int { return cmp.Or(cmp.Compare(deficit(a), deficit(b)), cmp.Compare(b, a)) })
}

func sum(counts []int) int {
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}

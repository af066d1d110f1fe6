package split

import (
	"cmp"
	"slices"
)

// livePod is a live pod with the number it stands for.
type livePod struct {
	Pod
	slot        int  // Unnumbered when there are more pods than replicas
	removed     bool // removed by this decision
	hasNoTarget bool // although its node is going away
}

// assignNumbers gives live pods a number below the replicas, as long as there are any. A pod keeps its own number. Pods without a number,
// with a duplicate, or with one beyond the replicas take the lowest free numbers of the class they run on, and other numbers only
// after that: a pod created without us is moved only if the mix is wrong.
func assignNumbers(policy Policy, replicas int, pods []Pod) []livePod {
	livePods := listLivePods(pods)
	used := make([]bool, max(0, replicas))
	var unnumbered []int
	for n := range livePods {
		if own := livePods[n].Number; own >= 0 && own < len(used) && !used[own] {
			livePods[n].slot, used[own] = own, true
			continue
		}
		unnumbered = append(unnumbered, n)
	}
	// Pods beyond the replicas are the first to go when the workload shrinks, so they are numbered last.
	slices.SortStableFunc(unnumbered, func(a, b int) int {
		return cmp.Compare(livePods[a].excessNumber(replicas), livePods[b].excessNumber(replicas))
	})
	var free [2][]int
	for k, held := range used {
		if !held {
			free[classIndex(Of(policy, k))] = append(free[classIndex(Of(policy, k))], k)
		}
	}
	numberRemaining(livePods, unnumbered, free)
	slices.SortStableFunc(livePods, func(a, b livePod) int { return cmp.Compare(uint(a.slot), uint(b.slot)) })
	return livePods
}

// numberRemaining fills free numbers, listed by class: each pod on its own class first, the rest anywhere.
func numberRemaining(livePods []livePod, strays []int, free [2][]int) {
	var rest []int
	for _, n := range strays {
		sameClass := &free[classIndex(livePods[n].class())]
		if len(*sameClass) == 0 || livePods[n].class() == "" {
			rest = append(rest, n)
			continue
		}
		livePods[n].slot, *sameClass = (*sameClass)[0], (*sameClass)[1:]
	}
	left := slices.Sorted(slices.Values(slices.Concat(free[0], free[1])))
	for n, k := range left[:min(len(left), len(rest))] {
		livePods[rest[n]].slot = k
	}
}

func classIndex(class Class) int {
	if class == Spot {
		return 1
	}
	return 0
}

// excessNumber returns a pod's number if it is not below the replicas, and 0 otherwise.
func (p livePod) excessNumber(replicas int) int {
	if p.Number < replicas {
		return 0
	}
	return p.Number
}

// listLivePods returns the pods that are not terminating, in a total order: of two pods with one number, the better established comes
// first.
func listLivePods(pods []Pod) []livePod {
	var livePods []livePod
	for _, pod := range pods {
		if pod.Phase != Terminating {
			livePods = append(livePods, livePod{Pod: pod, slot: Unnumbered})
		}
	}
	slices.SortFunc(livePods, func(a, b livePod) int {
		return cmp.Or(cmp.Compare(uint(a.Number), uint(b.Number)), cmp.Compare(b.Phase, a.Phase), a.Created.Compare(b.Created),
			cmp.Compare(a.Name, b.Name))
	})
	return livePods
}

// effectiveNumber returns the number that decides where a pod belongs: that of its place, or else its own.
func (p livePod) effectiveNumber() int {
	if p.slot == Unnumbered {
		return p.Number
	}
	return p.slot
}

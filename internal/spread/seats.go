package spread

import (
	"cmp"
	"slices"
)

// seat is a live pod with the number it stands for.
type seat struct {
	Pod
	number int  // Unnumbered when there are more pods than replicas
	gone   bool // removed by this decision
	stays  bool // although its node is going away
}

// seated gives live pods a number below the replicas, as long as there are any. A pod keeps its own number. Pods without a number,
// with a duplicate, or with one beyond the replicas take the lowest free numbers of the class they run on, and other numbers only
// after that: a pod created without us is moved only if the mix is wrong.
func seated(policy Policy, replicas int, pods []Pod) []seat {
	seats := living(pods)
	taken := make([]bool, max(0, replicas))
	var strays []int
	for n := range seats {
		if own := seats[n].Number; own >= 0 && own < len(taken) && !taken[own] {
			seats[n].number, taken[own] = own, true
			continue
		}
		strays = append(strays, n)
	}
	// Pods beyond the replicas are the first to go when the workload shrinks, so they are seated last.
	slices.SortStableFunc(strays, func(a, b int) int { return cmp.Compare(seats[a].beyond(replicas), seats[b].beyond(replicas)) })
	var free [2][]int
	for k, held := range taken {
		if !held {
			free[rank(Of(policy, k))] = append(free[rank(Of(policy, k))], k)
		}
	}
	seatStrays(seats, strays, free)
	slices.SortStableFunc(seats, func(a, b seat) int { return cmp.Compare(uint(a.number), uint(b.number)) })
	return seats
}

// seatStrays fills free numbers, listed by class: each stray on its own class first, the rest anywhere.
func seatStrays(seats []seat, strays []int, free [2][]int) {
	var rest []int
	for _, n := range strays {
		own := &free[rank(seats[n].where())]
		if len(*own) == 0 || seats[n].where() == "" {
			rest = append(rest, n)
			continue
		}
		seats[n].number, *own = (*own)[0], (*own)[1:]
	}
	left := slices.Sorted(slices.Values(slices.Concat(free[0], free[1])))
	for n, k := range left[:min(len(left), len(rest))] {
		seats[rest[n]].number = k
	}
}

func rank(class Class) int {
	if class == Spot {
		return 1
	}
	return 0
}

// beyond returns a pod's number if it is not below the replicas, and 0 otherwise.
func (s seat) beyond(replicas int) int {
	if s.Number < replicas {
		return 0
	}
	return s.Number
}

// living returns the pods that are not terminating, in a total order: of two pods with one number, the better established comes first.
func living(pods []Pod) []seat {
	var seats []seat
	for _, pod := range pods {
		if pod.Phase != Terminating {
			seats = append(seats, seat{Pod: pod, number: Unnumbered})
		}
	}
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(uint(a.Number), uint(b.Number)), cmp.Compare(b.Phase, a.Phase), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return seats
}

// stands returns the number that decides where a pod belongs: that of its seat, or else its own.
func (s seat) stands() int {
	if s.number == Unnumbered {
		return s.Number
	}
	return s.number
}

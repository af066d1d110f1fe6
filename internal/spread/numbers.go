package spread

import (
	"slices"
	"time"
)

// Numbers gives out the numbers of one ReplicaSet's pods, always the lowest that is free. It belongs to one place, the leader,
// and is rebuilt from pods: See tells it what there is, as often as that changes. It is not safe for concurrent use.
type Numbers struct {
	grace time.Duration
	taken []bool // by pods that were seen
	given []grant
}

// grant is a number whose pod was not seen yet.
type grant struct {
	number  int
	request string
	at      time.Time
}

// NewNumbers begins with nothing given out. A number whose pod does not appear within grace is free again.
func NewNumbers(grace time.Duration) *Numbers { return &Numbers{grace: grace} }

// See replaces what is known of the pods. One without a number of its own holds the one that it stands for, just as in Next.
// A number that was given out is held by its pod from now on, or until grace is over.
func (n *Numbers) See(policy Policy, replicas int, pods []Pod) {
	n.taken = n.taken[:0]
	for _, pod := range seated(policy, replicas, pods) {
		n.hold(pod.stands())
		n.hold(pod.Number)
	}
	for _, pod := range pods {
		n.Appeared(pod)
	}
}

// Appeared tells of a pod between two looks at all of them. One that comes and goes meanwhile would leave its number held until grace is over.
func (n *Numbers) Appeared(pod Pod) {
	n.given = slices.DeleteFunc(n.given, func(g grant) bool { return g.went(pod) })
}

// went tells whether a grant went to a pod. One that is already on its way out may have had the number before, unless it is
// younger than the grant; times of creation are cut to seconds.
func (g grant) went(pod Pod) bool {
	return g.number == pod.Number && (pod.Phase != Terminating || !pod.Created.Before(g.at.Truncate(time.Second)))
}

func (n *Numbers) hold(number int) {
	if number < 0 {
		return
	}
	for len(n.taken) <= number {
		n.taken = append(n.taken, false)
	}
	n.taken[number] = true
}

// Lowest is the number that Take would give: all that a dry run may ask for.
func (n *Numbers) Lowest(now time.Time) int {
	number := 0
	for n.held(number, now) {
		number++
	}
	return number
}

func (n *Numbers) held(number int, now time.Time) bool {
	if number < len(n.taken) && n.taken[number] {
		return true
	}
	return slices.ContainsFunc(n.given, func(g grant) bool { return g.number == number && now.Sub(g.at) < n.grace })
}

// Take gives out the lowest free number. A request that asks again gets the same.
func (n *Numbers) Take(request string, now time.Time) int {
	n.given = slices.DeleteFunc(n.given, func(g grant) bool { return now.Sub(g.at) >= n.grace })
	if number, given := n.Given(request, now); given {
		return number
	}
	number := n.Lowest(now)
	n.given = append(n.given, grant{number: number, request: request, at: now})
	return number
}

// Retake gives out a number again whose pod should have been seen by now: the request was given up, or refused by somebody else. It is the
// oldest such number, if there is any. Otherwise numbers that nobody has would be held while others wait for them.
func (n *Numbers) Retake(request string, now time.Time, overdue time.Duration) (number int, found bool) {
	oldest := -1
	for at, g := range n.given {
		if now.Sub(g.at) >= overdue && (oldest < 0 || g.at.Before(n.given[oldest].at)) {
			oldest = at
		}
	}
	if oldest < 0 {
		return Unnumbered, false
	}
	number = n.given[oldest].number
	n.given[oldest] = grant{number: number, request: request, at: now}
	return number, true
}

// Given is the number that a request was given, and whether it was and still waits for its pod.
func (n *Numbers) Given(request string, now time.Time) (number int, given bool) {
	for _, g := range n.given {
		if g.request == request && now.Sub(g.at) < n.grace {
			return g.number, true
		}
	}
	return Unnumbered, false
}

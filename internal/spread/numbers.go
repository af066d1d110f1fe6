package spread

import "time"

// Numbers gives out the numbers of one ReplicaSet's pods, always the lowest that is free. It belongs to one place, the leader,
// and is rebuilt from pods: See tells it what there is, as often as that changes. It is not safe for concurrent use.
type Numbers struct {
	grace    time.Duration
	taken    []bool         // by pods that were seen
	grants   []grant        // by number; the zero grant where there is none
	requests map[string]int // the number of each grant
}

// grant is a number whose pod was not seen yet.
type grant struct {
	request string
	at      time.Time
}

// NewNumbers begins with nothing given out. A number whose pod does not appear within grace is free again.
func NewNumbers(grace time.Duration) *Numbers {
	return &Numbers{grace: grace, requests: map[string]int{}}
}

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
	if pod.Number >= 0 && pod.Number < len(n.grants) && n.grants[pod.Number].went(pod) {
		n.revoke(pod.Number)
	}
}

// went reports whether a grant went to a pod that has its number. A pod that is being deleted may have had the number before, unless it is
// younger than the grant; times of creation are cut to seconds.
func (g grant) went(pod Pod) bool {
	return !g.at.IsZero() && (pod.Phase != Terminating || !pod.Created.Before(g.at.Truncate(time.Second)))
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
	return number < len(n.taken) && n.taken[number] || number < len(n.grants) && n.isCurrent(n.grants[number], now)
}

func (n *Numbers) isCurrent(g grant, now time.Time) bool {
	return !g.at.IsZero() && now.Sub(g.at) < n.grace
}

// Take gives out the lowest free number. A request that asks again gets the same.
func (n *Numbers) Take(request string, now time.Time) int {
	if number, given := n.Given(request, now); given {
		return number
	}
	number := n.Lowest(now)
	n.give(number, request, now)
	return number
}

// give records a grant, in place of the one that the number or the request had.
func (n *Numbers) give(number int, request string, now time.Time) {
	if former, given := n.requests[request]; given {
		n.revoke(former)
	}
	for len(n.grants) <= number {
		n.grants = append(n.grants, grant{})
	}
	n.revoke(number)
	n.grants[number] = grant{request, now}
	n.requests[request] = number
}

func (n *Numbers) revoke(number int) {
	if g := n.grants[number]; !g.at.IsZero() {
		delete(n.requests, g.request)
		n.grants[number] = grant{}
	}
}

// Outstanding returns how many numbers are given out whose pods were not seen.
func (n *Numbers) Outstanding(now time.Time) int {
	for number, g := range n.grants {
		if !n.isCurrent(g, now) {
			n.revoke(number)
		}
	}
	return len(n.requests)
}

// Retake gives out a number again whose pod should have been seen by now: the request was given up, or another webhook refused
// it. It is the oldest such number, if there is any. Otherwise numbers without a pod would be held while other requests wait for them.
func (n *Numbers) Retake(request string, now time.Time, overdue time.Duration) (number int, found bool) {
	oldest := -1
	for number, g := range n.grants {
		if !g.at.IsZero() && now.Sub(g.at) >= overdue && (oldest < 0 || g.at.Before(n.grants[oldest].at)) {
			oldest = number
		}
	}
	if oldest < 0 {
		return Unnumbered, false
	}
	n.give(oldest, request, now)
	return oldest, true
}

// Given is the number that a request was given, and whether it was and still waits for its pod.
func (n *Numbers) Given(request string, now time.Time) (number int, given bool) {
	if number, known := n.requests[request]; known && n.isCurrent(n.grants[number], now) {
		return number, true
	}
	return Unnumbered, false
}

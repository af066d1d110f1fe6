package spread

import "time"

// Numbers assigns numbers to the pods of one ReplicaSet, always the lowest that is free. Only the leader has it, and rebuilds it from
// pods by calling See whenever they change. It is not safe for concurrent use.
type Numbers struct {
	grace    time.Duration
	taken    []bool         // by observed pods
	grants   []grant        // by number; the zero grant where there is none
	requests map[string]int // the number of each grant
}

// grant is a number whose pod was not seen yet.
type grant struct {
	request string
	at      time.Time
}

// NewNumbers returns Numbers without grants. A number whose pod does not appear within grace becomes free again.
func NewNumbers(grace time.Duration) *Numbers {
	return &Numbers{grace: grace, requests: map[string]int{}}
}

// See replaces the known pods. A pod without a number holds the one it stands for, as in Next. A granted number is held by its pod
// from then on, or until grace is over.
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

// Appeared records a pod between two calls of See. Otherwise a pod that comes and goes in between would hold its number until grace is
// over.
func (n *Numbers) Appeared(pod Pod) {
	if pod.Number >= 0 && pod.Number < len(n.grants) && n.grants[pod.Number].went(pod) {
		n.revoke(pod.Number)
	}
}

// went reports whether a grant went to a pod that has its number. A pod that is being deleted may have had the number before, unless
// it is younger than the grant. Creation timestamps have a resolution of one second.
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

// Lowest returns the number that Take would assign. Dry runs use it.
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

// Take assigns the lowest free number. A repeated request gets the same one.
func (n *Numbers) Take(request string, now time.Time) int {
	if number, given := n.Given(request, now); given {
		return number
	}
	number := n.Lowest(now)
	n.give(number, request, now)
	return number
}

// give records a grant, in place of the former one of the number or the request.
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

// Outstanding returns the number of grants whose pods were not seen.
func (n *Numbers) Outstanding(now time.Time) int {
	for number, g := range n.grants {
		if !n.isCurrent(g, now) {
			n.revoke(number)
		}
	}
	return len(n.requests)
}

// Retake reassigns the oldest number whose pod should have been seen by now, if there is one: its request was given up, or another
// webhook refused it. Otherwise numbers without a pod would be held while other requests wait for them.
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

// Given returns the number granted to a request, and whether that grant still waits for its pod.
func (n *Numbers) Given(request string, now time.Time) (number int, given bool) {
	if number, known := n.requests[request]; known && n.isCurrent(n.grants[number], now) {
		return number, true
	}
	return Unnumbered, false
}

package split

import "time"

// Numbers assigns numbers to the pods of one ReplicaSet, always the lowest that is free. Only the leader has it, and rebuilds it from
// pods by calling SetPods whenever they change. It is not safe for concurrent use.
type Numbers struct {
	grace        time.Duration
	used         []bool         // by observed pods
	reservations []reservation  // by number; the zero reservation where there is none
	byRequest    map[string]int // the number of each reservation
}

// reservation is a number whose pod was not seen yet.
type reservation struct {
	request   string
	createdAt time.Time
}

// NewNumbers returns Numbers without reservations. A number whose pod does not appear within grace becomes free again.
func NewNumbers(grace time.Duration) *Numbers {
	return &Numbers{grace: grace, byRequest: map[string]int{}}
}

// SetPods replaces the known pods. A pod without a number holds the one it stands for, as in Decide. A reserved number is held by its pod
// from then on, or until grace is over.
func (n *Numbers) SetPods(policy Policy, replicas int, pods []Pod) {
	n.used = n.used[:0]
	for _, pod := range assignNumbers(policy, replicas, pods) {
		n.markUsed(pod.effectiveNumber())
		n.markUsed(pod.Number)
	}
	for _, pod := range pods {
		n.AddPod(pod)
	}
}

// AddPod records a pod between two calls of SetPods. Otherwise a pod that comes and goes in between would hold its number until grace is
// over.
func (n *Numbers) AddPod(pod Pod) {
	if pod.Number >= 0 && pod.Number < len(n.reservations) && n.reservations[pod.Number].matches(pod) {
		n.release(pod.Number)
	}
}

// matches reports whether a reservation went to a pod that has its number. A pod that is being deleted may have had the number before,
// unless it is younger than the reservation. Creation timestamps have a resolution of one second.
func (r reservation) matches(pod Pod) bool {
	return !r.createdAt.IsZero() && (pod.Phase != Terminating || !pod.Created.Before(r.createdAt.Truncate(time.Second)))
}

func (n *Numbers) markUsed(number int) {
	if number < 0 {
		return
	}
	for len(n.used) <= number {
		n.used = append(n.used, false)
	}
	n.used[number] = true
}

// LowestFree returns the number that Reserve would assign. Dry runs use it.
func (n *Numbers) LowestFree(now time.Time) int {
	number := 0
	for n.isUsed(number, now) {
		number++
	}
	return number
}

func (n *Numbers) isUsed(number int, now time.Time) bool {
	return number < len(n.used) && n.used[number] || number < len(n.reservations) && n.isCurrent(n.reservations[number], now)
}

func (n *Numbers) isCurrent(r reservation, now time.Time) bool {
	return !r.createdAt.IsZero() && now.Sub(r.createdAt) < n.grace
}

// Reserve assigns the lowest free number. A repeated request gets the same one.
func (n *Numbers) Reserve(request string, now time.Time) int {
	if number, given := n.ReservedNumber(request, now); given {
		return number
	}
	number := n.LowestFree(now)
	n.reserve(number, request, now)
	return number
}

// reserve records a reservation, in place of the former one of the number or the request.
func (n *Numbers) reserve(number int, request string, now time.Time) {
	if former, given := n.byRequest[request]; given {
		n.release(former)
	}
	for len(n.reservations) <= number {
		n.reservations = append(n.reservations, reservation{})
	}
	n.release(number)
	n.reservations[number] = reservation{request, now}
	n.byRequest[request] = number
}

func (n *Numbers) release(number int) {
	if r := n.reservations[number]; !r.createdAt.IsZero() {
		delete(n.byRequest, r.request)
		n.reservations[number] = reservation{}
	}
}

// CountReservations returns the number of reservations whose pods were not seen.
func (n *Numbers) CountReservations(now time.Time) int {
	for number, r := range n.reservations {
		if !n.isCurrent(r, now) {
			n.release(number)
		}
	}
	return len(n.byRequest)
}

// TakeOver reassigns the oldest number whose pod should have been seen by now, if there is one: its request was abandoned, or another
// webhook refused it. Otherwise numbers without a pod would be held while other requests wait for them.
func (n *Numbers) TakeOver(request string, now time.Time, minAge time.Duration) (number int, found bool) {
	oldest := -1
	for number, r := range n.reservations {
		if !r.createdAt.IsZero() && now.Sub(r.createdAt) >= minAge && (oldest < 0 || r.createdAt.Before(n.reservations[oldest].createdAt)) {
			oldest = number
		}
	}
	if oldest < 0 {
		return Unnumbered, false
	}
	n.reserve(oldest, request, now)
	return oldest, true
}

// ReservedNumber returns the number reserved for a request, and whether that reservation still waits for its pod.
func (n *Numbers) ReservedNumber(request string, now time.Time) (number int, given bool) {
	if number, known := n.byRequest[request]; known && n.isCurrent(n.reservations[number], now) {
		return number, true
	}
	return Unnumbered, false
}

package main

import (
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// limitTolerance is by how much a limit may seem to pass early. Creation timestamps are in whole seconds, and an agent counts the time of
// an attempt from a moment before its code starts.
const limitTolerance = 1200 * time.Millisecond

// requests is what users have asked of one task. There is none in journals of before.
type requests struct {
	createdAt   time.Duration // or a moment before
	limits      Request
	cancelled   bool
	suspensions int
}

// request notes what a user is about to ask.
func (j *checker) request(event Event) {
	if j.requests[event.Task] == nil {
		j.requests[event.Task] = &requests{createdAt: event.At, limits: *event.Request}
	}
	switch event.Request.Desired {
	case v1alpha1.TaskCancel:
		j.requests[event.Task].cancelled = true
	case v1alpha1.TaskSuspend:
		j.requests[event.Task].suspensions++
	}
}

// maxSuspendedAttempts is how many attempts a suspension may have stopped. Their ends are counted nowhere.
func (r *requests) maxSuspendedAttempts() int {
	if r == nil {
		return 0
	}
	return r.suspensions
}

// stops reports whether an attempt that has run for so long may have been stopped for that, which is a failure.
func (r *requests) stops(ran time.Duration) bool {
	return r != nil && mayHavePassed(r.limits.RunSeconds, ran)
}

// explain reports whether what is stored is a consequence of what users have asked.
func (r *requests) explain(event Event) bool {
	switch {
	case r == nil:
		return true
	case event.Stored.Phase == string(v1alpha1.TaskCancelled):
		return r.cancelled
	case event.Stored.Reason == string(v1alpha1.ReasonSuspended):
		return r.suspensions > 0
	case event.Stored.Reason == string(v1alpha1.ReasonTimedOut):
		age := event.At - r.createdAt
		return mayHavePassed(r.limits.QueueSeconds, age) || mayHavePassed(r.limits.RunSeconds, age) || mayHavePassed(r.limits.TotalSeconds, age)
	}
	return true
}

// mayHavePassed reports whether there is a limit, and it may be over.
func mayHavePassed(seconds int32, elapsed time.Duration) bool {
	return seconds > 0 && elapsed >= time.Duration(seconds)*time.Second-limitTolerance
}

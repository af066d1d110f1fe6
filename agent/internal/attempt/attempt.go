// Package attempt runs the code for one attempt and ends it when it must end: because of a time limit, a cancel, or because the agent
// stops. Ending has two steps, a request (the context, or SIGTERM) and force (SIGKILL), with a grace period between them. It knows neither
// the link nor the lease.
package attempt

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// UnlimitedGrace is a grace period that never ends.
const UnlimitedGrace time.Duration = -1

const (
	// ReasonLeaseExpired is the reason of attempts that were stopped because the lease expired.
	ReasonLeaseExpired = "LeaseExpired"
	// reasonTimedOut is the Task's reason of the same name.
	reasonTimedOut = "TimedOut"
)

// LeaseExpired is the request to stop an attempt when the operator cannot be reached.
var LeaseExpired = StopRequest{
	Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: ReasonLeaseExpired,
	Message: "the operator was out of reach for longer than the lease allows", Grace: UnlimitedGrace,
}

// A Result is the outcome of the code.
type Result struct {
	Outcome         linkv1.Outcome
	Value           []byte // JSON
	Reason, Message string
}

// ProgressFunc receives the progress that the code reports.
type ProgressFunc func(percent int32, message string)

// WorkFunc runs the code. When the context ends it should stop; when kill is closed it must.
type WorkFunc func(ctx context.Context, kill <-chan struct{}, report ProgressFunc) Result

// A StopRequest says why an attempt must end.
type StopRequest struct {
	Outcome         linkv1.Outcome // CANCELLED, HANDED_BACK or FAILED
	Reason, Message string
	Grace           time.Duration
}

// Limits ends the code when it takes too long. Zero means no limit.
type Limits struct {
	RunTimeout, ProgressTimeout, Grace time.Duration
}

// An Attempt is running code. All methods can be called from anywhere, any number of times.
type Attempt struct {
	limits   Limits
	ctx      context.Context
	cancel   context.CancelFunc
	kill     chan struct{}
	force    func() // closes kill, once
	expired  atomic.Bool
	onChange func()

	mu              sync.Mutex
	stopRequest     *StopRequest
	timers          []*time.Timer
	progressTimer   *time.Timer
	percent         int32
	message         string
	progressPending bool // there is progress that Progress has not returned yet
}

// New returns an attempt that does not run yet. It calls changed on other goroutines when there is new progress, and when the end is
// forced. Changed must not block.
func New(limits Limits, onChange func()) *Attempt {
	ctx, cancel := context.WithCancel(context.Background())
	a := &Attempt{limits: limits, ctx: ctx, cancel: cancel, kill: make(chan struct{}), onChange: onChange}
	a.force = sync.OnceFunc(func() {
		close(a.kill)
		onChange()
	})
	return a
}

// Start begins the work. Finished is called once at the end, on its own goroutine.
func (a *Attempt) Start(work WorkFunc, onFinished func(Result)) {
	a.startTimers()
	go func() {
		defer a.cancel()
		onFinished(a.finalResult(work(a.ctx, a.kill, a.setProgress)))
	}()
}

func (a *Attempt) startTimers() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limits.RunTimeout > 0 {
		a.timers = append(a.timers, time.AfterFunc(a.limits.RunTimeout,
			func() { a.stopByTimeout("it ran longer than its limit of %v", a.limits.RunTimeout) }))
	}
	if a.limits.ProgressTimeout > 0 {
		a.progressTimer = time.AfterFunc(a.limits.ProgressTimeout,
			func() { a.stopByTimeout("it reported no progress for %v", a.limits.ProgressTimeout) })
		a.timers = append(a.timers, a.progressTimer)
	}
}

func (a *Attempt) stopByTimeout(format string, limit time.Duration) {
	a.Stop(StopRequest{Outcome: linkv1.Outcome_OUTCOME_FAILED, Reason: reasonTimedOut, Message: fmt.Sprintf(format, limit),
		Grace: a.limits.Grace})
}

// StopRequest asks the code to end and forces it after the grace. The first stop is the reason that counts; a later one can
// only shorten the grace.
func (a *Attempt) Stop(request StopRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopRequest == nil {
		a.stopRequest = &request
		a.cancel()
	}
	if request.Grace != UnlimitedGrace {
		a.timers = append(a.timers, time.AfterFunc(request.Grace, a.Kill))
	}
}

// Kill forces the end. It takes no lock.
func (a *Attempt) Kill() { a.force() }

// Killed reports whether the end was forced. Changed is called when it is.
func (a *Attempt) Killed() bool {
	select {
	case <-a.kill:
		return true
	default:
		return false
	}
}

// Expire forces the end because the lease is over. It takes no lock of the attempt, so that nothing can keep a watchdog from calling it.
func (a *Attempt) Expire() {
	a.expired.Store(true)
	a.force()
	a.cancel()
}

func (a *Attempt) setProgress(percent int32, message string) {
	a.mu.Lock()
	a.percent = max(a.percent, min(percent, 100)) // progress never goes back within an attempt
	a.message, a.progressPending = message, true
	if a.progressTimer != nil {
		a.progressTimer.Reset(a.limits.ProgressTimeout)
	}
	a.mu.Unlock()
	a.onChange()
}

// Progress returns the latest report, and false when there is none since the last call.
func (a *Attempt) Progress() (percent int32, message string, isNew bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	isNew, a.progressPending = a.progressPending, false
	return a.percent, a.message, isNew
}

// finalResult combines how the code ended and why it had to end.
func (a *Attempt) finalResult(result Result) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, timer := range a.timers {
		timer.Stop()
	}
	request := a.stopRequest
	if request == nil && a.expired.Load() {
		request = &LeaseExpired // killed before it was asked to stop
	}
	if request == nil {
		return result
	}
	// Work that was only asked to make room and succeeded in time has succeeded.
	if request.Outcome == linkv1.Outcome_OUTCOME_HANDED_BACK && result.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED {
		return result
	}
	return Result{Outcome: request.Outcome, Reason: request.Reason, Message: request.Message}
}

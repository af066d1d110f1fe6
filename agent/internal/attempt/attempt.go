// Package attempt runs the code for one attempt and ends it when it must end: by a limit of time, by a cancel, or because
// the agent has to stop. Ending has two steps, a request (the context, or SIGTERM) and force (SIGKILL), with a grace
// between them. It knows neither the link nor the lease.
package attempt

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// Forever is a grace that does not end by itself.
const Forever time.Duration = -1

const (
	// ReasonLeaseExpired goes with what was stopped because the lease ran out.
	ReasonLeaseExpired = "LeaseExpired"
	// reasonTimedOut is the Task's reason of the same name.
	reasonTimedOut = "TimedOut"
)

// LeaseExpired is why an attempt must end when the operator is out of reach.
var LeaseExpired = Stop{
	Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: ReasonLeaseExpired,
	Message: "the operator was out of reach for longer than the lease allows", Grace: Forever,
}

// An End is how the code ended.
type End struct {
	Outcome         linkv1.Outcome
	Value           []byte // JSON
	Reason, Message string
}

// Report takes the code's word for how far it is.
type Report func(percent int32, message string)

// Work runs the code. When the context ends it should stop; when kill is closed it must.
type Work func(ctx context.Context, kill <-chan struct{}, report Report) End

// A Stop is why an attempt must end.
type Stop struct {
	Outcome         linkv1.Outcome // CANCELLED, HANDED_BACK or FAILED
	Reason, Message string
	Grace           time.Duration
}

// Limits end the code when it takes too long. Zero is no limit.
type Limits struct {
	Run, Silence, Grace time.Duration
}

// An Attempt is running code. All methods can be called from anywhere, any number of times.
type Attempt struct {
	limits  Limits
	ctx     context.Context
	cancel  context.CancelFunc
	kill    chan struct{}
	force   func() // closes kill, once
	expired atomic.Bool
	changed func()

	mu       sync.Mutex
	stopped  *Stop
	timers   []*time.Timer
	silence  *time.Timer
	percent  int32
	message  string
	reported bool // there is something that Progress has not returned yet
}

// New makes an attempt that does not run yet. Changed is called, now and then, when Progress has news, and when the end is forced, on other goroutines.
// It must not block.
func New(limits Limits, changed func()) *Attempt {
	ctx, cancel := context.WithCancel(context.Background())
	a := &Attempt{limits: limits, ctx: ctx, cancel: cancel, kill: make(chan struct{}), changed: changed}
	a.force = sync.OnceFunc(func() {
		close(a.kill)
		changed()
	})
	return a
}

// Start begins the work. Finished is called once at the end, on a goroutine of its own.
func (a *Attempt) Start(work Work, finished func(End)) {
	a.watch()
	go func() {
		defer a.cancel()
		finished(a.settle(work(a.ctx, a.kill, a.report)))
	}()
}

func (a *Attempt) watch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limits.Run > 0 {
		a.timers = append(a.timers, time.AfterFunc(a.limits.Run, func() { a.timeOut("it ran longer than its limit of %v", a.limits.Run) }))
	}
	if a.limits.Silence > 0 {
		a.silence = time.AfterFunc(a.limits.Silence, func() { a.timeOut("it reported no progress for %v", a.limits.Silence) })
		a.timers = append(a.timers, a.silence)
	}
}

func (a *Attempt) timeOut(format string, limit time.Duration) {
	a.Stop(Stop{Outcome: linkv1.Outcome_OUTCOME_FAILED, Reason: reasonTimedOut, Message: fmt.Sprintf(format, limit), Grace: a.limits.Grace})
}

// Stop asks the code to end and forces it after the grace. The first stop is the reason that counts; a later one can
// only shorten the grace.
func (a *Attempt) Stop(why Stop) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped == nil {
		a.stopped = &why
		a.cancel()
	}
	if why.Grace != Forever {
		a.timers = append(a.timers, time.AfterFunc(why.Grace, a.Kill))
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

func (a *Attempt) report(percent int32, message string) {
	a.mu.Lock()
	a.percent = max(a.percent, min(percent, 100)) // progress never goes back within an attempt
	a.message, a.reported = message, true
	if a.silence != nil {
		a.silence.Reset(a.limits.Silence)
	}
	a.mu.Unlock()
	a.changed()
}

// Progress is the latest report; false when there is none since the last call.
func (a *Attempt) Progress() (percent int32, message string, isNew bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	isNew, a.reported = a.reported, false
	return a.percent, a.message, isNew
}

// settle makes the outcome of how the code ended and why it had to.
func (a *Attempt) settle(end End) End {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, timer := range a.timers {
		timer.Stop()
	}
	stop := a.stopped
	if stop == nil && a.expired.Load() {
		stop = &LeaseExpired // killed before it was asked to stop
	}
	if stop == nil {
		return end
	}
	// Work that was only asked to make room and finished in time is finished.
	if stop.Outcome == linkv1.Outcome_OUTCOME_HANDED_BACK && end.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED {
		return end
	}
	return End{Outcome: stop.Outcome, Reason: stop.Reason, Message: stop.Message}
}

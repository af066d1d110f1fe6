package kit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
)

// ErrNotLeading is the error of every write of a process that does not lead, or can no longer be sure that it does.
var ErrNotLeading = errors.New("not leading: the lease was not renewed in time")

// Leadership is what this process knows about its own term. It begins when the process wins the Lease, and ends once: on release, or when
// the last successful renewal is older than the renew deadline. For a process that wakes from a long freeze it has ended, whatever the
// Lease says: the process restarts as a new holder with a new term.
type Leadership struct {
	identity  string
	pod       podProcesses
	deadline  time.Duration
	onStarted func(context.Context)
	onStopped func()
	clock     func() hostclock.Reading

	leaderCtx context.Context // done when leadership has ended
	cancel    context.CancelCauseFunc

	lock           sync.Mutex
	holder         string // of the Lease, as last seen
	term           int64
	renewed        hostclock.Reading // when the last renewal that succeeded was sent
	soleFrom       time.Time         // see SoleLeaderFrom
	hasPredecessor bool              // of a leader that is known to have existed, and may continue until then
	expiry         *time.Timer
}

func newLeadership(election Election) *Leadership {
	processes := podProcesses{election.PodLock}
	l := &Leadership{
		identity:  election.Identity + "_" + processes.newProcessID(),
		pod:       processes,
		deadline:  election.renewDeadline(),
		onStarted: election.OnStarted,
		onStopped: election.OnStopped,
		clock:     hostclock.Read,
	}
	l.leaderCtx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// Identity returns the name of this process in the Lease. Every start is a new holder.
func (l *Leadership) Identity() string { return l.identity }

// Holder returns the holder of the Lease as this process last saw it: "" before it saw one, and after a release. A standby looks every
// retry period. The holder may be gone since; only Fresh is certain.
func (l *Leadership) Holder() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.holder
}

// observeHolder records the holder of the Lease. If that is another process, it may already act, so this one ends at once instead of at its
// deadline.
func (l *Leadership) observeHolder(holder string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.holder = holder
	if !l.renewed.IsZero() && holder != "" && holder != l.identity {
		l.cancel(ErrNotLeading)
	}
}

// SoleLeaderFrom returns the time from which no other process can believe that it leads. That is when this process won the Lease, unless
// the Lease was deleted or taken by force: then a former leader may continue until its own deadline.
func (l *Leadership) SoleLeaderFrom() time.Time {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.soleFrom
}

// recordWin records from when this process is the sole leader, and whether another one led before. Only the first renewal decides that.
func (l *Leadership) recordWin(soleFrom time.Time, hasPredecessor bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.renewed.IsZero() {
		l.soleFrom, l.hasPredecessor = soleFrom, hasPredecessor
	}
}

// HasPredecessor reports whether another process is known to have led before, and may continue until SoleLeaderFrom.
func (l *Leadership) HasPredecessor() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.hasPredecessor
}

// mayRelease reports whether the Lease may be released. While a former leader may continue, the Lease must expire instead: a process that
// takes a released Lease assumes that no other process leads.
func (l *Leadership) mayRelease() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return !l.hasPredecessor || !time.Now().Before(l.soleFrom)
}

// Fresh reports whether this process leads and can be sure of it. It relies on the local clock, not on the API server.
func (l *Leadership) Fresh() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.fresh()
}

func (l *Leadership) fresh() bool {
	return l.leaderCtx.Err() == nil && !l.renewed.IsZero() && l.renewalAge() <= l.deadline
}

// renewalAge returns the age of the last renewal by the clock that shows the most: too old is safe, too young is not.
func (l *Leadership) renewalAge() time.Duration { return l.clock().Since(l.renewed) }

// Term returns the term of this process, 0 until it leads. It grows with every leader: it is the Lease's count of transitions, or above the
// newest one in Election.Terms.
func (l *Leadership) Term() int64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.term
}

// RaiseTerm raises the term above one that was seen elsewhere, for example because the Lease was deleted and Election.Terms has no newer
// term. The next renewal stores it in the Lease and in Election.Terms.
func (l *Leadership) RaiseTerm(above int64) int64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.term = max(l.term, above+1)
	return l.term
}

// Ended is closed when this process no longer leads.
func (l *Leadership) Ended() <-chan struct{} { return l.leaderCtx.Done() }

// Start implements manager.Runnable for the time of leadership: it runs the callbacks, and ends the program when leadership ends.
func (l *Leadership) Start(ctx context.Context) error {
	leading, stop := context.WithCancel(ctx)
	defer stop()
	if l.onStarted != nil {
		go l.onStarted(leading)
	}
	select {
	case <-ctx.Done():
	case <-l.leaderCtx.Done():
	}
	stop()
	if l.onStopped != nil {
		l.onStopped()
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(l.leaderCtx)
}

// recordRenewal records a successful renewal that was sent at that time. One that comes too late changes nothing: other processes may have
// seen the Lease expire.
func (l *Leadership) recordRenewal(sent hostclock.Reading, term int64) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.hasEnded() {
		l.cancel(ErrNotLeading)
		return
	}
	l.renewed, l.term = sent, max(l.term, term)
	if l.expiry == nil {
		l.expiry = time.AfterFunc(l.deadline-l.renewalAge(), l.expire)
		return
	}
	l.expiry.Reset(l.deadline - l.renewalAge())
}

// expire ends leadership if no renewal came in time. It checks again, since one may have just come.
func (l *Leadership) expire() {
	l.lock.Lock()
	defer l.lock.Unlock()
	if remaining := l.deadline - l.renewalAge(); remaining >= 0 {
		l.expiry.Reset(remaining + time.Millisecond)
		return
	}
	l.cancel(ErrNotLeading)
}

// resign ends leadership before the Lease is released.
func (l *Leadership) resign() {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.expiry != nil {
		l.expiry.Stop()
	}
	l.cancel(ErrNotLeading)
}

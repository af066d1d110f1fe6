package kit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
)

// ErrNotLeading is the answer to every write of a process that does not lead, or can no longer be sure that it does.
var ErrNotLeading = errors.New("not leading: the lease was not renewed in time")

// Leadership is what this process knows of its own term. It begins with winning the Lease and ends once, for good: by
// release, or when the last renewal that succeeded is older than the renew deadline. A process that wakes up from being frozen finds
// it ended, whatever the Lease says, and starts again as another holder with another term.
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
	hasPredecessor bool              // of a leader that is known to have been there, and may go on until then
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

// Identity is how the Lease names this process: every start is another holder.
func (l *Leadership) Identity() string { return l.identity }

// Holder is the identity of the holder of the Lease when this process last saw it, which a standby does every retry period:
// "" before that, and after it was given back. It may be gone since; only Fresh is sure of anything.
func (l *Leadership) Holder() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.holder
}

// observeHolder notes the holder of the Lease. Once that is another process, it may have begun to act: this one ends at once, and not with
// its deadline.
func (l *Leadership) observeHolder(holder string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.holder = holder
	if !l.renewed.IsZero() && holder != "" && holder != l.identity {
		l.cancel(ErrNotLeading)
	}
}

// SoleLeaderFrom is the time from which no other process can believe that it leads. It is that of winning, unless the Lease was deleted or
// taken by force: then a former leader may go on until its own deadline.
func (l *Leadership) SoleLeaderFrom() time.Time {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.soleFrom
}

// recordWin notes from when this process is alone, and whether another one led before, which only the first renewal decides.
func (l *Leadership) recordWin(soleFrom time.Time, hasPredecessor bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.renewed.IsZero() {
		l.soleFrom, l.hasPredecessor = soleFrom, hasPredecessor
	}
}

// HasPredecessor reports whether another process is known to have led before, and may go on until SoleLeaderFrom.
func (l *Leadership) HasPredecessor() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.hasPredecessor
}

// mayRelease reports whether the Lease may be given back. While a former leader may go on it must expire instead: a process that takes a
// Lease that was given back assumes that no other process leads.
func (l *Leadership) mayRelease() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return !l.hasPredecessor || !time.Now().Before(l.soleFrom)
}

// Fresh reports whether this process leads and can be sure of it. It goes by its own clock, not by the API server.
func (l *Leadership) Fresh() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.fresh()
}

func (l *Leadership) fresh() bool {
	return l.leaderCtx.Err() == nil && !l.renewed.IsZero() && l.renewalAge() <= l.deadline
}

// renewalAge is that of the last renewal, by the clock that shows most: too old is safe and too young is not.
func (l *Leadership) renewalAge() time.Duration { return l.clock().Since(l.renewed) }

// Term grows with every leader: it is the Lease's count of transitions, or above the newest one in Election.Terms; 0 until this process
// leads.
func (l *Leadership) Term() int64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.term
}

// RaiseTerm lifts the term above one that was seen elsewhere, as when the Lease was deleted and there is no newer term in Election.Terms.
// The Lease, and Election.Terms, learn of it with the next renewal.
func (l *Leadership) RaiseTerm(above int64) int64 {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.term = max(l.term, above+1)
	return l.term
}

// Ended is closed when this process no longer leads.
func (l *Leadership) Ended() <-chan struct{} { return l.leaderCtx.Done() }

// Start implements manager.Runnable for the time of leadership: it calls back, and ends the program when leadership ends
// before the program does.
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

// recordRenewal notes a renewal that was sent at that moment and has succeeded. One that comes too late changes nothing: others
// may have seen us silent.
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

// expire ends leadership if no renewal came in time. It looks again, since one may have come just now.
func (l *Leadership) expire() {
	l.lock.Lock()
	defer l.lock.Unlock()
	if remaining := l.deadline - l.renewalAge(); remaining >= 0 {
		l.expiry.Reset(remaining + time.Millisecond)
		return
	}
	l.cancel(ErrNotLeading)
}

// resign ends leadership before the Lease is given back.
func (l *Leadership) resign() {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.expiry != nil {
		l.expiry.Stop()
	}
	l.cancel(ErrNotLeading)
}

package limit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// A Budget limits requests, in total and per flow.
type Budget struct {
	PerSecond float64 // in the long run
	Burst     int     // at once, after a pause
	// Share is the largest percentage of the budget that one flow may use while the rest is not available.
	Share int
}

// A FairLimiter is a token bucket for several flows, such as namespaces or addresses. Each request takes a token.
//
// It promises:
//   - All flows together take at most Burst tokens at once and PerSecond tokens per second.
//   - One flow takes at most its Share of Burst at once. The rest is the reserve of the others. While the reserve is not full, one
//     flow takes at most its Share of PerSecond. Above the reserve any flow may take a token, so that a single flow gets all of
//     PerSecond.
//   - Waiting flows take turns, however many requests each of them has. The requests of a flow are served in order.
//
// So a flow without a backlog waits for at most one turn of each other flow: as many tokens as there are waiting flows.
type FairLimiter struct {
	share   bucket // of a flow that has taken nothing yet
	reserve float64

	mu      sync.Mutex
	total   bucket
	flows   map[string]*flow
	waiting []*flow // in the order of their turns
	timer   *time.Timer
	sweepAt int
}

// A flow holds the waiting requests of one user of the budget.
type flow struct {
	share bucket
	queue []chan struct{} // one for each request, closed when it is served
}

// minSweepSize is how many flows are remembered before idle ones are forgotten.
const minSweepSize = 64

// NewFairLimiter returns a limiter with a full budget.
func NewFairLimiter(budget Budget) *FairLimiter {
	now, share := time.Now(), float64(budget.Share)/100
	all := newBucket(budget.PerSecond, float64(budget.Burst), now)
	own := newBucket(budget.PerSecond*share, max(1, float64(budget.Burst)*share), now)
	return &FairLimiter{share: own, reserve: all.size - own.size, total: all, flows: map[string]*flow{}, sweepAt: minSweepSize}
}

// Wait returns when a request of the flow may proceed. It fails when the context ends first, and at once when that is certain.
func (l *FairLimiter) Wait(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, turn, err := l.enqueue(ctx, name)
	if err != nil {
		return err
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		if l.withdraw(f, turn) {
			return ctx.Err()
		}
		return nil
	}
}

func (l *FairLimiter) enqueue(ctx context.Context, name string) (*flow, chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	f := l.getFlow(name, now)
	if deadline, ok := ctx.Deadline(); ok && l.waitTime(f, now) > deadline.Sub(now) {
		return nil, nil, fmt.Errorf("the request would have to wait longer than it may: %w", context.DeadlineExceeded)
	}
	turn := make(chan struct{})
	if len(f.queue) == 0 {
		l.waiting = append(l.waiting, f)
	}
	f.queue = append(f.queue, turn)
	l.serve(now)
	return f, turn, nil
}

// withdraw withdraws a request; it returns false if that was served meanwhile.
func (l *FairLimiter) withdraw(f *flow, turn chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(f.queue, turn)
	if at < 0 {
		return false
	}
	f.queue = slices.Delete(f.queue, at, at+1)
	if len(f.queue) == 0 {
		l.waiting = slices.DeleteFunc(l.waiting, func(one *flow) bool { return one == f })
	}
	return true
}

// serve distributes the available tokens, and schedules itself for the next one.
func (l *FairLimiter) serve(now time.Time) {
	l.total.fill(now)
	for {
		next := slices.IndexFunc(l.waiting, func(candidate *flow) bool { return l.waitTime(candidate, now) == 0 })
		if next < 0 {
			break
		}
		f := l.waiting[next]
		l.waiting = slices.Delete(l.waiting, next, next+1)
		l.total.take()
		f.share.take()
		close(f.queue[0])
		if f.queue = f.queue[1:]; len(f.queue) > 0 {
			l.waiting = append(l.waiting, f)
		}
	}
	l.schedule(now)
}

func (l *FairLimiter) schedule(now time.Time) {
	if l.timer != nil {
		l.timer.Stop()
	}
	soonest := forever
	for _, f := range l.waiting {
		soonest = min(soonest, l.waitTime(f, now))
	}
	if soonest == forever {
		return
	}
	l.timer = time.AfterFunc(soonest, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.serve(time.Now())
	})
}

// waitTime returns how long it takes until a flow may take a token, if no other takes one.
func (l *FairLimiter) waitTime(f *flow, now time.Time) time.Duration {
	l.total.fill(now)
	f.share.fill(now)
	return max(l.total.waitTime(1), min(f.share.waitTime(1), l.total.waitTime(l.reserve+1)))
}

func (l *FairLimiter) getFlow(name string, now time.Time) *flow {
	f := l.flows[name]
	if f == nil {
		if len(l.flows) >= l.sweepAt {
			l.forgetIdle(now)
		}
		f = &flow{share: l.share}
		l.flows[name] = f
	}
	return f
}

// forgetIdle drops flows that are in the initial state. The others have used tokens recently, so that the budget bounds their number.
func (l *FairLimiter) forgetIdle(now time.Time) {
	for name, f := range l.flows {
		f.share.fill(now)
		if len(f.queue) == 0 && f.share.level >= f.share.size {
			delete(l.flows, name)
		}
	}
	l.sweepAt = max(minSweepSize, 2*len(l.flows))
}

const forever = time.Duration(math.MaxInt64)

// epsilon is a token less the rounding error of adding fractions.
const epsilon = 1e-9

// A bucket holds tokens.
type bucket struct {
	perSecond, size, level float64
	filledAt               time.Time
}

func newBucket(perSecond, size float64, now time.Time) bucket {
	return bucket{perSecond: perSecond, size: size, level: size, filledAt: now}
}

func (b *bucket) fill(now time.Time) {
	if elapsed := now.Sub(b.filledAt); elapsed > 0 {
		b.level = min(b.size, b.level+elapsed.Seconds()*b.perSecond)
		b.filledAt = now
	}
}

// take takes a token. An empty bucket stays empty: tokens taken beyond a share are no debt.
func (b *bucket) take() { b.level = max(0, b.level-1) }

// waitTime returns how long it takes until there are that many tokens.
func (b *bucket) waitTime(tokens float64) time.Duration {
	missing := tokens - b.level
	switch {
	case missing <= epsilon:
		return 0
	case b.perSecond <= 0 || tokens > b.size+epsilon:
		return forever
	}
	return time.Duration(math.Ceil(missing / b.perSecond * float64(time.Second)))
}

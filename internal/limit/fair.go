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
	all     bucket
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

// flowsKept is how many flows are remembered before idle ones are forgotten.
const flowsKept = 64

// NewFairLimiter returns a limiter with a full budget.
func NewFairLimiter(budget Budget) *FairLimiter {
	now, share := time.Now(), float64(budget.Share)/100
	all := newBucket(budget.PerSecond, float64(budget.Burst), now)
	own := newBucket(budget.PerSecond*share, max(1, float64(budget.Burst)*share), now)
	return &FairLimiter{share: own, reserve: all.size - own.size, all: all, flows: map[string]*flow{}, sweepAt: flowsKept}
}

// Wait returns when a request of the flow may proceed. It fails when the context ends first, and at once when that is certain.
func (l *FairLimiter) Wait(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from, turn, err := l.enter(ctx, name)
	if err != nil {
		return err
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		if l.leave(from, turn) {
			return ctx.Err()
		}
		return nil
	}
}

func (l *FairLimiter) enter(ctx context.Context, name string) (*flow, chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	from := l.flow(name, now)
	if deadline, set := ctx.Deadline(); set && l.until(from, now) > deadline.Sub(now) {
		return nil, nil, fmt.Errorf("the request would have to wait longer than it may: %w", context.DeadlineExceeded)
	}
	turn := make(chan struct{})
	if len(from.queue) == 0 {
		l.waiting = append(l.waiting, from)
	}
	from.queue = append(from.queue, turn)
	l.serve(now)
	return from, turn, nil
}

// leave withdraws a request; it returns false if that was served meanwhile.
func (l *FairLimiter) leave(from *flow, turn chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(from.queue, turn)
	if at < 0 {
		return false
	}
	from.queue = slices.Delete(from.queue, at, at+1)
	if len(from.queue) == 0 {
		l.waiting = slices.DeleteFunc(l.waiting, func(one *flow) bool { return one == from })
	}
	return true
}

// serve distributes the available tokens, and schedules itself for the next one.
func (l *FairLimiter) serve(now time.Time) {
	l.all.fill(now)
	for {
		next := slices.IndexFunc(l.waiting, func(one *flow) bool { return l.until(one, now) == 0 })
		if next < 0 {
			break
		}
		served := l.waiting[next]
		l.waiting = slices.Delete(l.waiting, next, next+1)
		l.all.take()
		served.share.take()
		close(served.queue[0])
		if served.queue = served.queue[1:]; len(served.queue) > 0 {
			l.waiting = append(l.waiting, served)
		}
	}
	l.comeBack(now)
}

func (l *FairLimiter) comeBack(now time.Time) {
	if l.timer != nil {
		l.timer.Stop()
	}
	soonest := forever
	for _, one := range l.waiting {
		soonest = min(soonest, l.until(one, now))
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

// until returns how long it takes until a flow may take a token, if no other takes one.
func (l *FairLimiter) until(one *flow, now time.Time) time.Duration {
	l.all.fill(now)
	one.share.fill(now)
	return max(l.all.until(1), min(one.share.until(1), l.all.until(l.reserve+1)))
}

func (l *FairLimiter) flow(name string, now time.Time) *flow {
	known := l.flows[name]
	if known == nil {
		if len(l.flows) >= l.sweepAt {
			l.forgetIdle(now)
		}
		known = &flow{share: l.share}
		l.flows[name] = known
	}
	return known
}

// forgetIdle drops flows that are in the initial state. The others have used tokens recently, so that the budget bounds their number.
func (l *FairLimiter) forgetIdle(now time.Time) {
	for name, one := range l.flows {
		one.share.fill(now)
		if len(one.queue) == 0 && one.share.level >= one.share.size {
			delete(l.flows, name)
		}
	}
	l.sweepAt = max(flowsKept, 2*len(l.flows))
}

const forever = time.Duration(math.MaxInt64)

// enough is a token less the rounding error of adding fractions.
const enough = 1e-9

// A bucket holds tokens.
type bucket struct {
	perSecond, size, level float64
	filled                 time.Time
}

func newBucket(perSecond, size float64, now time.Time) bucket {
	return bucket{perSecond: perSecond, size: size, level: size, filled: now}
}

func (b *bucket) fill(now time.Time) {
	if passed := now.Sub(b.filled); passed > 0 {
		b.level = min(b.size, b.level+passed.Seconds()*b.perSecond)
		b.filled = now
	}
}

// take takes a token. An empty bucket stays empty: tokens taken beyond a share are no debt.
func (b *bucket) take() { b.level = max(0, b.level-1) }

// until returns how long it takes until there are that many tokens.
func (b *bucket) until(tokens float64) time.Duration {
	missing := tokens - b.level
	switch {
	case missing <= enough:
		return 0
	case b.perSecond <= 0 || tokens > b.size+enough:
		return forever
	}
	return time.Duration(math.Ceil(missing / b.perSecond * float64(time.Second)))
}

package limit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A requestLoad makes concurrent requests of one flow, and records how long each of them waited.
type requestLoad struct {
	mu    sync.Mutex
	waits []time.Duration
}

func (d *requestLoad) start(t *testing.T, limiter *FairLimiter, flow string, requests int) {
	t.Helper()
	began := time.Now()
	for range requests {
		go func() {
			if limiter.Wait(t.Context(), flow) != nil {
				return
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.waits = append(d.waits, time.Since(began))
		}()
	}
	synctest.Wait()
}

// servedWithin returns how many requests were served within the limit.
func (d *requestLoad) servedWithin(limit time.Duration) (served int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, waited := range d.waits {
		if waited <= limit {
			served++
		}
	}
	return served
}

func TestOneFlowLeavesItsShareOfTheBurst(t *testing.T) {
	for share, want := range map[int]int{100: 100, 50: 50, 20: 20} {
		synctest.Test(t, func(t *testing.T) {
			limiter, alone := NewFairLimiter(Budget{PerSecond: 10, Burst: 100, Share: share}), &requestLoad{}
			alone.start(t, limiter, "a", 200)
			if got := alone.servedWithin(0); got != want {
				t.Errorf("share %d: %d at once, want %d", share, got, want)
			}
			// It is alone, so it gets the whole rate.
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := alone.servedWithin(5 * time.Second); got != want+50 {
				t.Errorf("share %d: %d in 5 s, want %d", share, got, want+50)
			}
		})
	}
}

// One namespace requests 50 times as much. The other waits for at most one turn, which is two tokens.
func TestStormOfOneFlowDelaysOthersByATurn(t *testing.T) {
	for reason, budget := range map[string]Budget{
		"a reserve":  {PerSecond: 100, Burst: 200, Share: 50},
		"no reserve": {PerSecond: 100, Burst: 200, Share: 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter, storm, other := NewFairLimiter(budget), &requestLoad{}, &requestLoad{}
			storm.start(t, limiter, "storm", 5000)
			for range 100 {
				other.start(t, limiter, "calm", 1)
				time.Sleep(100 * time.Millisecond) // the other namespace has 50 times as many requests, served or not
			}
			synctest.Wait()
			if got := other.servedWithin(2 * time.Second / 100); got != 100 {
				t.Errorf("%s: %d of 100 requests waited for 2 tokens at most", reason, got)
			}
		})
	}
}

// With n flows that all exceed the budget, each gets one n-th, however much it wants.
func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewFairLimiter(Budget{PerSecond: 100, Burst: 1, Share: 50})
		flows := []*requestLoad{}
		for n := range 4 {
			flows = append(flows, &requestLoad{})
			flows[n].start(t, limiter, fmt.Sprint(n), 250*(n+1))
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		for n, flow := range flows {
			if got := flow.servedWithin(8 * time.Second); got < 199 || got > 201 {
				t.Errorf("flow %d was served %d times in 8 s, want 200", n, got)
			}
		}
	})
}

// Two busy flows have emptied the bucket. A third flow is served in its turn, and each busy flow gets only its share while the reserve
// refills.
func TestShareBoundsTheRateWhileTheReserveIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, first, second := NewFairLimiter(Budget{PerSecond: 100, Burst: 100, Share: 20}), &requestLoad{}, &requestLoad{}
		others := &requestLoad{}
		for n := range 5 {
			others.start(t, limiter, fmt.Sprintf("other-%d", n), 20) // together the whole burst
		}
		time.Sleep(time.Millisecond)
		first.start(t, limiter, "first", 1000)
		second.start(t, limiter, "second", 1000)
		time.Sleep(time.Second)
		synctest.Wait()
		for name, storm := range map[string]*requestLoad{"first": first, "second": second} {
			if got := storm.servedWithin(time.Second); got > 20+20 {
				t.Errorf("%s was served %d times in a second, want its 20 at once and 20 per second", name, got)
			}
		}
		if got := others.servedWithin(0); got != 100 {
			t.Errorf("%d of 100 at once", got)
		}
	})
}

// All flows together never exceed the budget, also when some give up.
func TestBudgetHoldsForAllTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, all := NewFairLimiter(Budget{PerSecond: 50, Burst: 30, Share: 40}), &requestLoad{}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for n := range 10 {
			all.start(t, limiter, fmt.Sprint(n), 40)
			go func() { _ = limiter.Wait(impatient, fmt.Sprint(n)) }()
		}
		for second := range 5 {
			limit := time.Duration(second+1) * time.Second
			time.Sleep(time.Second)
			synctest.Wait()
			if got, most := all.servedWithin(limit), 30+50*(second+1); got > most || got < most-30-10 {
				t.Errorf("%d in %s, want about %d", got, limit, most)
			}
		}
	})
}

func TestRequestThatIsGivenUpCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, after := NewFairLimiter(Budget{PerSecond: 1, Burst: 1, Share: 100}), &requestLoad{}
		if err := limiter.Wait(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() { given <- limiter.Wait(ctx, "a") }()
		synctest.Wait()
		after.start(t, limiter, "a", 1)
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if after.servedWithin(time.Second) != 1 {
			t.Error("the next one still waits for the turn of the one that was given up")
		}
		if err := limiter.Wait(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that is over: %v", err)
		}
	})
}

func TestRequestThatCannotBeServedInTimeFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, began := NewFairLimiter(Budget{PerSecond: 0.1, Burst: 1, Share: 100}), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := limiter.Wait(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if err := limiter.Wait(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestIdleFlowsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewFairLimiter(Budget{PerSecond: 100, Burst: 100, Share: 50})
		for n := range 10_000 {
			if err := limiter.Wait(t.Context(), fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(limiter.flows); got > 4*minSweepSize {
			t.Errorf("%d flows are remembered", got)
		}
	})
}

func TestSources(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.7:4000":          "10.0.0.7",
		"[::ffff:10.0.0.7]:4000": "10.0.0.7", // as reported by a dual-stack socket
		"[fd00:1:2:3:4::5]:1":    "fd00:1:2:3::/64",
		"[fd00:1:2:3:9::5]:1":    "fd00:1:2:3::/64",
		"[fe80::1%eth0]:1":       "fe80::/64",
		"nowhere":                "",
	} {
		if got := SourceOf(remote); got != want {
			t.Errorf("%s: got %q, want %q", remote, got, want)
		}
	}
	if got := Source(&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.7"), Port: 1}); got != "10.0.0.7" {
		t.Errorf("got %q", got)
	}
	if Source(nil) != "" || Source(&net.UnixAddr{Name: "@"}) != "" {
		t.Error("what has no address has a source")
	}
}

package lease

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// suspended is how far the wall clock has jumped.
var suspended atomic.Int64

func init() {
	wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(suspended.Load())) }
}

// suspend lets the wall clock jump, as it does when the machine was suspended. The monotonic clock and timers stand still then.
func suspend(t *testing.T, jump time.Duration) {
	t.Helper()
	suspended.Add(int64(jump))
	t.Cleanup(func() { suspended.Add(-int64(jump)) })
}

// A stuck handler blocks for an hour on what it logs.
type stuckHandler struct{ slog.Handler }

func (stuckHandler) Enabled(context.Context, slog.Level) bool { return true }
func (stuckHandler) Handle(context.Context, slog.Record) error {
	time.Sleep(time.Hour)
	return nil
}

// F3: the log is stuck when the Lease is lost.
func TestALossIsToldBeforeItIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := keep(&server{pod: "a"}, "a")
		a.held(t)
		a.told() // the keeper sleeps
		a.keeper.Log = slog.New(stuckHandler{slog.DiscardHandler})
		a.set(func() { a.cut = true })
		time.Sleep(duration)
		if a.told().Held {
			t.Error("nobody was told of the loss while the log is stuck")
		}
		a.end()
	})
}

// F9: the Lease counts what the machine slept, by whichever clock says more.
func TestLeftGoesByBothClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(5 * time.Second)
		suspend(t, 3*time.Second)
		if left := Left(until); left != 2*time.Second {
			t.Errorf("%s are left after a suspension, want 2s", left)
		}
		suspend(t, -time.Hour) // somebody has set the wall clock back
		if left := Left(until); left != 5*time.Second {
			t.Errorf("%s are left by the monotonic clock, want 5s", left)
		}
	})
}

// history runs a keeper while a test does something, and returns what it told: whether the Lease was held.
func history(t *testing.T, change func(*Keeper), test func(*link)) (tenures []bool) {
	t.Helper()
	records := &link{server: &server{pod: "a"}, uid: "a"}
	k := &Keeper{Records: records, Name: "l", Holder: "a", Duration: duration, Log: slog.New(slog.DiscardHandler)}
	change(k)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Keep(ctx, func(tenure Tenure) { tenures = append(tenures, tenure.Held) })
	}()
	test(records)
	synctest.Wait()
	cancel()
	<-done
	return tenures
}

func assertLapsed(t *testing.T, tenures []bool) {
	t.Helper()
	if len(tenures) < 3 || !slices.Equal(tenures[len(tenures)-3:], []bool{true, false, true}) {
		t.Errorf("told %v, want held, lost, held", tenures)
	}
}

// F9: a renewal that was under way during a suspension does not undo that the Lease was lost: jobs were stopped by force, or must be stopped.
func TestARenewalDoesNotHideALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assertLapsed(t, history(t, func(*Keeper) {}, func(l *link) {
			time.Sleep(time.Second)
			l.set(func() { l.slow = time.Second })
			time.Sleep(duration/3 - time.Second/2) // a renewal is under way since half a second ago
			suspend(t, 8*time.Second)              // so the one before is 13.5 s old
			time.Sleep(time.Second)
		}))
	})
}

// A watchdog has stopped everything by force; the Lease was renewed at the last moment.
func TestALapseIsToldEvenIfTheLeaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := make(chan struct{})
		assertLapsed(t, history(t, func(k *Keeper) { k.Expired = expired }, func(*link) {
			time.Sleep(time.Second)
			expired <- struct{}{}
		}))
	})
}

// The deadline of the watchdog is 5/6 of the Lease, from the sending of the last renewal that succeeded.
func TestTheDeadlineFollowsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deadline atomic.Int64
		began := time.Now()
		assert := func(when string) {
			if got, want := time.Duration(deadline.Load()), duration/3+duration*5/6; got != want {
				t.Errorf("deadline %s %s, want %s", got, when, want)
			}
		}
		history(t, func(k *Keeper) {
			k.Deadline = func(left time.Duration) { deadline.Store(int64(time.Since(began) + left)) }
		}, func(l *link) {
			time.Sleep(duration/3 + time.Second)
			assert("after the first renewal")
			l.set(func() { l.cut = true })
			time.Sleep(time.Minute)
			assert("without renewals")
		})
	})
}

func TestTheDeadlineIsSetBeforeTheLeaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := false
		k := &Keeper{
			Records: &link{server: &server{pod: "a"}, uid: "a"}, Name: "l", Holder: "a", Duration: duration,
			Log: slog.New(slog.DiscardHandler), Deadline: func(time.Duration) { set = true },
		}
		ctx, cancel := context.WithCancel(t.Context())
		k.Keep(ctx, func(tenure Tenure) {
			if tenure.Held {
				cancel()
				if !set {
					t.Error("whoever starts jobs now finds no deadline")
				}
			}
		})
	})
}

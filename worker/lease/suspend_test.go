package lease

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/internal/hostclock"
)

// How far the clocks have jumped. The monotonic clock never does.
var wallJump, bootJump atomic.Int64

func init() {
	now = func() hostclock.Reading {
		present := time.Now() // a bubble's, in which the machine's own clock would not stand still
		return hostclock.Reading{
			Monotonic: present,
			Wall:      present.Round(0).Add(time.Duration(wallJump.Load())),
			Boot:      time.Duration(present.UnixNano() + bootJump.Load()),
		}
	}
}

// suspend lets the clocks jump as they do when the machine was suspended. The monotonic clock and timers stand still then.
func suspend(t *testing.T, length time.Duration) {
	t.Helper()
	setWallClock(t, length)
	jump(t, &bootJump, length)
}

// setWallClock sets the wall clock forward, or back.
func setWallClock(t *testing.T, by time.Duration) {
	t.Helper()
	jump(t, &wallJump, by)
}

func jump(t *testing.T, clock *atomic.Int64, by time.Duration) {
	t.Helper()
	clock.Add(int64(by))
	t.Cleanup(func() { clock.Add(-int64(by)) })
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
			t.Error("the loss was not reported while the log is stuck")
		}
		a.end()
	})
}

// F9: the Lease counts what the machine slept, by the clock that shows most.
func TestLeftGoesByAllClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deadline := now().Add(5 * time.Second)
		assert := func(when string, want time.Duration) {
			t.Helper()
			if left := Left(deadline); left != want {
				t.Errorf("%s are left %s, want %s", left, when, want)
			}
		}
		setWallClock(t, -time.Hour)
		assert("when the wall clock was set back", 5*time.Second)
		suspend(t, 3*time.Second)
		assert("after a suspension with the wall clock set back", 2*time.Second)
		setWallClock(t, time.Hour+time.Second) // suspended for another second, which the kernel does not know of
		assert("by the wall clock", time.Second)
	})
}

// A worker that was suspended for an hour, while the wall clock was set back by an hour, must not get a new deadline from its last renewal.
func TestSuspensionIsNotHiddenByAWallClockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left atomic.Int64
		tenures := history(t, func(k *Keeper) {
			k.Deadline = func(until time.Duration) { left.Store(int64(until)) }
		}, func(l *link) {
			time.Sleep(time.Second)
			l.set(func() { l.cut = true })
			suspend(t, time.Hour)
			setWallClock(t, -time.Hour)
			time.Sleep(duration / 3) // the next renewal fails
		})
		if tenures[len(tenures)-1] || time.Duration(left.Load()) > -time.Hour+duration {
			t.Errorf("told %v, and %s are left until everything is stopped by force", tenures, time.Duration(left.Load()))
		}
	})
}

// history runs a keeper while a test does something, and returns what it reported: whether the Lease was held.
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
					t.Error("a job that starts now finds no deadline")
				}
			}
		})
	})
}

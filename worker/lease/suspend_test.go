package lease

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
)

// How far the clocks have jumped. The monotonic clock never does.
var wallOffset, bootOffset atomic.Int64

func init() {
	now = func() hostclock.Reading {
		present := time.Now() // a bubble's, in which the machine's own clock would not stand still
		return hostclock.Reading{
			Monotonic: present,
			Wall:      present.Round(0).Add(time.Duration(wallOffset.Load())),
			Boot:      time.Duration(present.UnixNano() + bootOffset.Load()),
		}
	}
}

// simulateSuspension advances the clocks as after a suspension of the machine. The monotonic clock and timers stand still.
func simulateSuspension(t *testing.T, length time.Duration) {
	t.Helper()
	setWallClock(t, length)
	advanceClock(t, &bootOffset, length)
}

// setWallClock sets the wall clock forward, or back.
func setWallClock(t *testing.T, by time.Duration) {
	t.Helper()
	advanceClock(t, &wallOffset, by)
}

func advanceClock(t *testing.T, clock *atomic.Int64, by time.Duration) {
	t.Helper()
	clock.Add(int64(by))
	t.Cleanup(func() { clock.Add(-int64(by)) })
}

// A stuck handler blocks for an hour on each record.
type stuckHandler struct{ slog.Handler }

func (stuckHandler) Enabled(context.Context, slog.Level) bool { return true }
func (stuckHandler) Handle(context.Context, slog.Record) error {
	time.Sleep(time.Hour)
	return nil
}

// F3: the log is blocked when the Lease is lost.
func TestALossIsReportedBeforeItIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startKeeper(&fakeServer{pod: "a"}, "a")
		a.awaitHeld(t)
		a.lastState() // the keeper sleeps
		a.keeper.Log = slog.New(stuckHandler{slog.DiscardHandler})
		a.change(func() { a.unreachable = true })
		time.Sleep(duration)
		if a.lastState().Held {
			t.Error("the loss was not reported while the log is stuck")
		}
		a.stop()
	})
}

// F9: the Lease counts what the machine slept, by the clock that shows most.
func TestRemainingUsesAllClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deadline := now().Add(5 * time.Second)
		assert := func(when string, want time.Duration) {
			t.Helper()
			if remaining := Remaining(deadline); remaining != want {
				t.Errorf("%s are left %s, want %s", remaining, when, want)
			}
		}
		setWallClock(t, -time.Hour)
		assert("when the wall clock was set back", 5*time.Second)
		simulateSuspension(t, 3*time.Second)
		assert("after a suspension with the wall clock set back", 2*time.Second)
		setWallClock(t, time.Hour+time.Second) // suspended for another second, which the kernel does not know of
		assert("by the wall clock", time.Second)
	})
}

// A worker that was suspended for an hour, while the wall clock was set back by an hour, must not get a new deadline from its last renewal.
func TestSuspensionIsNotHiddenByAWallClockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var remaining atomic.Int64
		heldHistory := recordHeld(t, func(k *Keeper) {
			k.Deadline = func(until time.Duration) { remaining.Store(int64(until)) }
		}, func(l *fakeStore) {
			time.Sleep(time.Second)
			l.change(func() { l.unreachable = true })
			simulateSuspension(t, time.Hour)
			setWallClock(t, -time.Hour)
			time.Sleep(duration / 3) // the next renewal fails
		})
		if heldHistory[len(heldHistory)-1] || time.Duration(remaining.Load()) > -time.Hour+duration {
			t.Errorf("told %v, and %s are left until everything is stopped by force", heldHistory, time.Duration(remaining.Load()))
		}
	})
}

// recordHeld runs a keeper while a test does something, and returns what it reported: whether the Lease was held.
func recordHeld(t *testing.T, configure func(*Keeper), test func(*fakeStore)) (heldHistory []bool) {
	t.Helper()
	store := &fakeStore{fakeServer: &fakeServer{pod: "a"}, uid: "a"}
	k := &Keeper{Store: store, Name: "l", Holder: "a", Duration: duration, Log: slog.New(slog.DiscardHandler)}
	configure(k)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx, func(tenure State) { heldHistory = append(heldHistory, tenure.Held) })
	}()
	test(store)
	synctest.Wait()
	cancel()
	<-done
	return heldHistory
}

func assertLapsed(t *testing.T, heldHistory []bool) {
	t.Helper()
	if len(heldHistory) < 3 || !slices.Equal(heldHistory[len(heldHistory)-3:], []bool{true, false, true}) {
		t.Errorf("told %v, want held, lost, held", heldHistory)
	}
}

// F9: a renewal that was under way during a suspension does not undo that the Lease was lost: jobs were stopped by force, or must be
// stopped.
func TestARenewalDoesNotHideALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assertLapsed(t, recordHeld(t, func(*Keeper) {}, func(l *fakeStore) {
			time.Sleep(time.Second)
			l.change(func() { l.delay = time.Second })
			time.Sleep(duration/3 - time.Second/2) // a renewal is under way since half a second ago
			simulateSuspension(t, 8*time.Second)   // so the one before is 13.5 s old
			time.Sleep(time.Second)
		}))
	})
}

// A watchdog has stopped everything by force; the Lease was renewed at the last moment.
func TestExpiryIsReportedEvenIfTheLeaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := make(chan struct{})
		assertLapsed(t, recordHeld(t, func(k *Keeper) { k.Expired = expired }, func(*fakeStore) {
			time.Sleep(time.Second)
			expired <- struct{}{}
		}))
	})
}

// The deadline of the watchdog is 5/6 of the Lease, from the sending of the last renewal that succeeded.
func TestTheDeadlineFollowsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deadline atomic.Int64
		start := time.Now()
		assert := func(when string) {
			if got, want := time.Duration(deadline.Load()), duration/3+duration*5/6; got != want {
				t.Errorf("deadline %s %s, want %s", got, when, want)
			}
		}
		recordHeld(t, func(k *Keeper) {
			k.Deadline = func(remaining time.Duration) { deadline.Store(int64(time.Since(start) + remaining)) }
		}, func(l *fakeStore) {
			time.Sleep(duration/3 + time.Second)
			assert("after the first renewal")
			l.change(func() { l.unreachable = true })
			time.Sleep(time.Minute)
			assert("without renewals")
		})
	})
}

func TestTheDeadlineIsSetBeforeTheLeaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := false
		k := &Keeper{
			Store: &fakeStore{fakeServer: &fakeServer{pod: "a"}, uid: "a"}, Name: "l", Holder: "a", Duration: duration,
			Log: slog.New(slog.DiscardHandler), Deadline: func(time.Duration) { set = true },
		}
		ctx, cancel := context.WithCancel(t.Context())
		k.Run(ctx, func(tenure State) {
			if tenure.Held {
				cancel()
				if !set {
					t.Error("a job that starts now finds no deadline")
				}
			}
		})
	})
}

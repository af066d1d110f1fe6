package duty

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/internal/hostclock"
	"github.com/swarm-io/swarm-operator/internal/watchdog"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// guarded runs a test with a worker that needs a Lease and has a watchdog, whose deadline is 10 s away.
func guarded(t *testing.T, test func(t *testing.T, w *world, exited *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.tenures = make(chan lease.Tenure)
		began, exited := time.Now(), &atomic.Int64{}
		w.watchdog = watchdog.Start(watchdog.Config{
			Clock: func() time.Duration { return time.Since(began) }, Expired: func() {}, Exit: func() { exited.Add(1) },
		})
		w.watchdog.SetDeadline(10 * time.Second)
		w.run()
		test(t, w, exited)
		w.watchdog.Stop()
	})
}

// F3: the goroutine that stops jobs is stuck, here in its journal. The watchdog stops them.
func TestAStuckDutyIsFenced(t *testing.T) {
	guarded(t, func(t *testing.T, w *world, exited *atomic.Int64) {
		w.hold()
		w.publish(1, "a b")
		w.expect(t, "a b", 1)
		w.stuck.Lock()
		w.publish(2, "b") // the journal records that a has stopped
		job := w.context("b")
		time.Sleep(9 * time.Second)
		if job.Err() != nil || len(w.kills()) > 0 {
			t.Fatalf("b was stopped too early, killed %v", w.kills())
		}
		time.Sleep(time.Second + watchdog.Tick)
		if job.Err() == nil || len(w.kills()) != 1 {
			t.Errorf("b runs on, killed %v", w.kills())
		}
		time.Sleep(watchdog.DeathTimeout)
		if exited.Load() != 1 {
			t.Error("the process goes on though b has not been reported as stopped")
		}
		w.stuck.Unlock()
		synctest.Wait()
		w.well(t)
	})
}

func TestAJobThatStopsInTimeIsNotKilled(t *testing.T) {
	guarded(t, func(t *testing.T, w *world, exited *atomic.Int64) {
		w.startFails["broken"] = 1
		w.hold()
		w.publish(1, "a broken")
		w.publish(2, "")
		w.expect(t, "", 2)
		time.Sleep(time.Minute)
		if len(w.kills()) > 0 || exited.Load() != 0 {
			t.Errorf("killed %v, exited %d times", w.kills(), exited.Load())
		}
		w.well(t)
	})
}

// A stop that is under way when the watchdog acts has no more time for an orderly end.
func TestTheWatchdogForcesAStopThatIsUnderWay(t *testing.T) {
	guarded(t, func(t *testing.T, w *world, exited *atomic.Int64) {
		w.stopTakes["slow"], w.forced["slow"] = time.Hour, true
		w.hold()
		w.publish(1, "slow")
		w.publish(2, "")
		w.expect(t, "slow", 1)
		time.Sleep(10*time.Second + watchdog.Tick)
		w.expect(t, "", 2)
		time.Sleep(time.Minute)
		if exited.Load() != 0 {
			t.Error("the process ended though everything had stopped")
		}
		w.well(t)
	})
}

// After a suspension the watchdog knows first. Nothing may start until the Lease is held again.
func TestNothingStartsAfterTheDeadline(t *testing.T) {
	guarded(t, func(t *testing.T, w *world, _ *atomic.Int64) {
		w.hold()
		time.Sleep(10 * time.Second)
		w.publish(1, "a")
		w.expect(t, "", 1)
		w.watchdog.SetDeadline(time.Hour)
		w.hold()
		w.expect(t, "a", 1)
		w.well(t)
	})
}

// F9: time that the machine slept counts, too.
func TestAStopIsForcedByWhicheverClockSaysLess(t *testing.T) {
	leased(t, func(t *testing.T, w *world) {
		left = func(until hostclock.Reading) time.Duration { return untilMonotonic(until) - 2*time.Second }
		defer func() { left = untilMonotonic }()
		w.stopTakes["slow"], w.forced["slow"] = time.Hour, true
		w.hold()
		w.publish(1, "slow")
		w.lose()
		time.Sleep(499 * time.Millisecond)
		w.expect(t, "slow", 1)
		time.Sleep(time.Millisecond)
		w.expect(t, "", 1)
		w.well(t)
	})
}

// What was noticed too late is still stopped in order, if that is quick.
func TestALossThatIsNoticedTooLateLeavesAMoment(t *testing.T) {
	leased(t, func(t *testing.T, w *world) {
		w.stopTakes["a"], w.forced["a"] = 100*time.Millisecond, false
		w.hold()
		w.publish(1, "a")
		past := hostclock.Read().Add(-time.Hour)
		w.tenures <- lease.Tenure{Problem: "suspended", Force: past, Over: past}
		time.Sleep(200 * time.Millisecond)
		w.expect(t, "", 1)
		w.well(t)
	})
}

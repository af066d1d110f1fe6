package runner

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// runWithWatchdog runs a test with a worker that needs a Lease and has a watchdog, whose deadline is 10 s away.
func runWithWatchdog(t *testing.T, test func(t *testing.T, w *testRunner, exited *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newTestRunner()
		w.leaseStates = make(chan lease.State)
		start, exited := time.Now(), &atomic.Int64{}
		w.watchdog = watchdog.Start(watchdog.Config{
			Clock: func() time.Duration { return time.Since(start) }, Expired: func() {}, Exit: func() { exited.Add(1) },
		})
		w.watchdog.SetDeadline(10 * time.Second)
		w.run()
		test(t, w, exited)
		w.watchdog.Stop()
	})
}

// F3: the goroutine that stops jobs is stuck, here in its journal. The watchdog stops them.
func TestAStuckRunnerIsFenced(t *testing.T) {
	runWithWatchdog(t, func(t *testing.T, w *testRunner, exited *atomic.Int64) {
		w.gainLease()
		w.publish(1, "a b")
		w.awaitState(t, "a b", 1)
		w.journalGate.Lock()
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
		w.journalGate.Unlock()
		synctest.Wait()
		w.finish(t)
	})
}

func TestAJobThatStopsInTimeIsNotKilled(t *testing.T) {
	runWithWatchdog(t, func(t *testing.T, w *testRunner, exited *atomic.Int64) {
		w.startFails["broken"] = 1
		w.gainLease()
		w.publish(1, "a broken")
		w.publish(2, "")
		w.awaitState(t, "", 2)
		time.Sleep(time.Minute)
		if len(w.kills()) > 0 || exited.Load() != 0 {
			t.Errorf("killed %v, exited %d times", w.kills(), exited.Load())
		}
		w.finish(t)
	})
}

// A stop that is under way when the watchdog acts has no more time for an orderly end.
func TestTheWatchdogForcesAStopThatIsUnderWay(t *testing.T) {
	runWithWatchdog(t, func(t *testing.T, w *testRunner, exited *atomic.Int64) {
		w.stopTakes["slow"], w.forceable["slow"] = time.Hour, true
		w.gainLease()
		w.publish(1, "slow")
		w.publish(2, "")
		w.awaitState(t, "slow", 1)
		time.Sleep(10*time.Second + watchdog.Tick)
		w.awaitState(t, "", 2)
		time.Sleep(time.Minute)
		if exited.Load() != 0 {
			t.Error("the process ended though everything had stopped")
		}
		w.finish(t)
	})
}

// After a suspension the watchdog knows first. Nothing may start until the Lease is held again.
func TestNothingStartsAfterTheDeadline(t *testing.T) {
	runWithWatchdog(t, func(t *testing.T, w *testRunner, _ *atomic.Int64) {
		w.gainLease()
		time.Sleep(10 * time.Second)
		w.publish(1, "a")
		w.awaitState(t, "", 1)
		w.watchdog.SetDeadline(time.Hour)
		w.gainLease()
		w.awaitState(t, "a", 1)
		w.finish(t)
	})
}

// F9: time that the machine slept counts, too.
func TestAStopIsForcedByTheClockWithLessTime(t *testing.T) {
	runWithLease(t, func(t *testing.T, w *testRunner) {
		remaining = func(until hostclock.Reading) time.Duration { return untilMonotonic(until) - 2*time.Second }
		defer func() { remaining = untilMonotonic }()
		w.stopTakes["slow"], w.forceable["slow"] = time.Hour, true
		w.gainLease()
		w.publish(1, "slow")
		w.loseLease()
		time.Sleep(499 * time.Millisecond)
		w.awaitState(t, "slow", 1)
		time.Sleep(time.Millisecond)
		w.awaitState(t, "", 1)
		w.finish(t)
	})
}

// What was noticed too late is still stopped in order, if that is quick.
func TestALossThatIsNoticedTooLateLeavesAMoment(t *testing.T) {
	runWithLease(t, func(t *testing.T, w *testRunner) {
		w.stopTakes["a"], w.forceable["a"] = 100*time.Millisecond, false
		w.gainLease()
		w.publish(1, "a")
		past := hostclock.Read().Add(-time.Hour)
		w.leaseStates <- lease.State{Problem: "suspended", ForceAt: past, ExpiresAt: past}
		time.Sleep(200 * time.Millisecond)
		w.awaitState(t, "", 1)
		w.finish(t)
	})
}

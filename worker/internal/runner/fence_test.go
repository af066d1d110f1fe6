package runner

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// untilMonotonic is how long it is until a reading in a bubble, where the machine's own clocks do not stand still.
func untilMonotonic(reading hostclock.Reading) time.Duration { return time.Until(reading.Monotonic) }

func init() { remaining = untilMonotonic }

// runWithLease runs a test with a worker that needs a Lease.
func runWithLease(t *testing.T, test func(t *testing.T, w *testRunner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newTestRunner()
		w.leaseStates = make(chan lease.State)
		w.run()
		test(t, w)
	})
}

func (w *testRunner) gainLease() { w.leaseStates <- lease.State{Held: true} }

// loseLease is the report of a Lease of 15 s after 10 s of silence.
func (w *testRunner) loseLease() {
	now := hostclock.Read()
	w.leaseStates <- lease.State{Problem: "the API server is away", ForceAt: now.Add(2500 * time.Millisecond),
		ExpiresAt: now.Add(5 * time.Second)}
}

func (w *testRunner) finish(t *testing.T) {
	t.Helper()
	if wrong, err := w.stop(); wrong != "" || err != nil {
		t.Errorf("%s %v", wrong, err)
	}
}

func TestNothingRunsWithoutTheLease(t *testing.T) {
	runWithLease(t, func(t *testing.T, w *testRunner) {
		w.publish(1, "a b")
		w.awaitState(t, "", 0) // another process may run something under this name
		w.leaseStates <- lease.State{Problem: "pod u-0 has it"}
		w.awaitState(t, "", 0)
		if w.problem != "pod u-0 has it" {
			t.Errorf("says %q", w.problem)
		}
		w.gainLease()
		w.awaitState(t, "a b", 1)
		w.loseLease()
		w.awaitState(t, "", 1)
		if w.problem != "the API server is away" {
			t.Errorf("says %q", w.problem)
		}
		w.publish(2, "b c")
		w.awaitState(t, "", 1)
		w.gainLease()
		w.awaitState(t, "b c", 2)
		time.Sleep(time.Hour) // nothing is left of the time that was running out
		w.awaitState(t, "b c", 2)
		if w.problem != "" {
			t.Errorf("still says %q", w.problem)
		}
		w.finish(t)
	})
}

// Slow jobs get time to stop until others could take the Lease, and no longer.
func TestAStopIsForcedBeforeTheLeaseIsOver(t *testing.T) {
	runWithLease(t, func(t *testing.T, w *testRunner) {
		w.stopTakes["slow"], w.forceable["slow"] = time.Hour, true
		w.gainLease()
		w.publish(1, "quick slow")
		w.awaitState(t, "quick slow", 1)
		w.loseLease()
		w.awaitState(t, "slow", 1)
		time.Sleep(2499 * time.Millisecond)
		w.awaitState(t, "slow", 1)
		time.Sleep(time.Millisecond)
		w.awaitState(t, "", 1)
		w.gainLease()
		w.awaitState(t, "quick slow", 1)
		w.publish(2, "quick") // a stop that was under way when the Lease was lost is forced as well
		time.Sleep(time.Minute)
		w.awaitState(t, "quick slow", 1)
		w.loseLease()
		time.Sleep(2500 * time.Millisecond)
		w.awaitState(t, "", 1)
		w.gainLease()
		w.awaitState(t, "quick", 2)
		w.finish(t)
	})
}

// Jobs that have not stopped when others may have the Lease end with the process.
func TestAJobThatDoesNotStopEndsTheWorker(t *testing.T) {
	for name, breakJob := range map[string]func(*testRunner){
		"it does not heed": func(w *testRunner) { w.stopTakes["a"] = time.Hour },
		"its stop fails":   func(w *testRunner) { w.stopFails["a"] = 1000 },
		"it still starts":  func(w *testRunner) { w.startTakes["a"] = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			runWithLease(t, func(t *testing.T, w *testRunner) {
				breakJob(w)
				w.gainLease()
				w.publish(1, "a b")
				w.loseLease()
				time.Sleep(5*time.Second - time.Millisecond)
				synctest.Wait()
				select {
				case err := <-w.done:
					t.Fatalf("ended too early: %v", err)
				default:
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				select {
				case err := <-w.done:
					if err == nil || !strings.Contains(err.Error(), `stop job "a": it has not stopped`) {
						t.Errorf("ended with %v", err)
					}
				default:
					t.Error("it goes on")
				}
				w.cancel()
				time.Sleep(2 * time.Hour) // for what the process would have ended
			})
		})
	}
}

func TestALeaseIsLostWhileLeaving(t *testing.T) {
	runWithLease(t, func(t *testing.T, w *testRunner) {
		w.stopTakes["slow"], w.forceable["slow"] = time.Hour, true
		w.gainLease()
		w.publish(1, "slow")
		w.cancel()
		time.Sleep(time.Minute)
		w.awaitState(t, "slow", 1)
		w.loseLease()
		time.Sleep(2500 * time.Millisecond)
		w.awaitState(t, "", 1)
		w.finish(t)
	})
}

package duty

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/internal/hostclock"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// untilMonotonic is how long it is until a reading in a bubble, where the machine's own clocks do not stand still.
func untilMonotonic(reading hostclock.Reading) time.Duration { return time.Until(reading.Monotonic) }

func init() { left = untilMonotonic }

// leased runs a test with a worker that needs a Lease.
func leased(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.tenures = make(chan lease.Tenure)
		w.run()
		test(t, w)
	})
}

func (w *world) hold() { w.tenures <- lease.Tenure{Held: true} }

// lose is the report of a Lease of 15 s after 10 s of silence.
func (w *world) lose() {
	now := hostclock.Read()
	w.tenures <- lease.Tenure{Problem: "the API server is away", Force: now.Add(2500 * time.Millisecond), Over: now.Add(5 * time.Second)}
}

func (w *world) well(t *testing.T) {
	t.Helper()
	if wrong, err := w.end(); wrong != "" || err != nil {
		t.Errorf("%s %v", wrong, err)
	}
}

func TestNothingRunsWithoutTheLease(t *testing.T) {
	leased(t, func(t *testing.T, w *world) {
		w.publish(1, "a b")
		w.expect(t, "", 0) // another process may run something under this name
		w.tenures <- lease.Tenure{Problem: "pod u-0 has it"}
		w.expect(t, "", 0)
		if w.problem != "pod u-0 has it" {
			t.Errorf("says %q", w.problem)
		}
		w.hold()
		w.expect(t, "a b", 1)
		w.lose()
		w.expect(t, "", 1)
		if w.problem != "the API server is away" {
			t.Errorf("says %q", w.problem)
		}
		w.publish(2, "b c")
		w.expect(t, "", 1)
		w.hold()
		w.expect(t, "b c", 2)
		time.Sleep(time.Hour) // nothing is left of the time that was running out
		w.expect(t, "b c", 2)
		if w.problem != "" {
			t.Errorf("still says %q", w.problem)
		}
		w.well(t)
	})
}

// Jobs that take their time get it until others could take the Lease, and no longer.
func TestAStopIsForcedBeforeTheLeaseIsOver(t *testing.T) {
	leased(t, func(t *testing.T, w *world) {
		w.stopTakes["slow"], w.forced["slow"] = time.Hour, true
		w.hold()
		w.publish(1, "quick slow")
		w.expect(t, "quick slow", 1)
		w.lose()
		w.expect(t, "slow", 1)
		time.Sleep(2499 * time.Millisecond)
		w.expect(t, "slow", 1)
		time.Sleep(time.Millisecond)
		w.expect(t, "", 1)
		w.hold()
		w.expect(t, "quick slow", 1)
		w.publish(2, "quick") // a stop that was under way when the Lease was lost is forced as well
		time.Sleep(time.Minute)
		w.expect(t, "quick slow", 1)
		w.lose()
		time.Sleep(2500 * time.Millisecond)
		w.expect(t, "", 1)
		w.hold()
		w.expect(t, "quick", 2)
		w.well(t)
	})
}

// What has not stopped when others may have the Lease ends with the process.
func TestAJobThatDoesNotStopEndsTheWorker(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"it does not heed": func(w *world) { w.stopTakes["a"] = time.Hour },
		"its stop fails":   func(w *world) { w.stopFails["a"] = 1000 },
		"it still starts":  func(w *world) { w.startTakes["a"] = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			leased(t, func(t *testing.T, w *world) {
				spoil(w)
				w.hold()
				w.publish(1, "a b")
				w.lose()
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
	leased(t, func(t *testing.T, w *world) {
		w.stopTakes["slow"], w.forced["slow"] = time.Hour, true
		w.hold()
		w.publish(1, "slow")
		w.cancel()
		time.Sleep(time.Minute)
		w.expect(t, "slow", 1)
		w.lose()
		time.Sleep(2500 * time.Millisecond)
		w.expect(t, "", 1)
		w.well(t)
	})
}

package runner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarm-io/swarm-operator/worker/internal/filewatch"
)

func TestJobsFollowTheList(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.awaitState(t, "", 0)
		w.publish(1, "a b")
		w.awaitState(t, "a b", 1)
		w.publish(2, "b c")
		w.awaitState(t, "b c", 2)
		w.publish(3, "")
		w.awaitState(t, "", 3)
		want := "acknowledge 1, start a, start b, stop a, acknowledge 2, start c, stop b, stop c, acknowledge 3"
		got := slices.Clone(w.log)
		slices.Sort(got[6:8]) // two stops at once end in any order
		if strings.Join(got, ", ") != want {
			t.Errorf("journal %q, want %q", got, want)
		}
	})
}

// The core of a hand-over: a removed job must have ended before the acknowledgement is visible.
func TestAcknowledgementWaitsForSlowStops(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.stopTakes["a"] = time.Minute
		w.publish(1, "a b")
		w.publish(2, "b c")
		w.awaitState(t, "a b", 1)
		time.Sleep(time.Minute - time.Nanosecond)
		w.awaitState(t, "a b", 1)
		time.Sleep(time.Nanosecond)
		w.awaitState(t, "b c", 2)
	})
}

func TestAStopThatFailsIsTriedAgain(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.stopFails["a"] = 2
		w.publish(1, "a")
		w.publish(2, "b")
		w.awaitState(t, "a", 1)
		time.Sleep(time.Second)
		w.awaitState(t, "a", 1)
		time.Sleep(2 * time.Second)
		w.awaitState(t, "b", 2)
	})
}

func TestAStartThatFailsIsTriedAgain(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.startFails["a"] = 2
		w.publish(1, "a b")
		w.awaitState(t, "b", 1)
		time.Sleep(3 * time.Second)
		w.awaitState(t, "a b", 1)
	})
}

func TestAJobThatCannotStartCanBeRevoked(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.startFails["a"] = 1000
		w.publish(1, "a")
		time.Sleep(time.Hour)
		w.publish(2, "")
		w.awaitState(t, "", 2)
	})
}

// expectRestart requires that job a was stopped before it was started again.
func (w *testRunner) expectRestart(t *testing.T) {
	t.Helper()
	if got := strings.Join(w.log, ", "); got != "acknowledge 1, start a, acknowledge 3, stop a, start a" {
		t.Errorf("journal %q", got)
	}
}

// Removed and added again before the stop has ended: the stop is completed, and the job is started again.
func TestReassignedWhileStopping(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.stopTakes["a"] = time.Minute
		w.publish(1, "a")
		w.publish(2, "")
		w.publish(3, "a")
		w.awaitState(t, "a", 3)
		time.Sleep(time.Minute)
		w.awaitState(t, "a", 3)
		w.expectRestart(t)
	})
}

// Its context ended when it was removed, so a start that succeeds anyway does not count as a running job.
func TestReassignedWhileStarting(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.startTakes["a"] = time.Minute
		w.publish(1, "a")
		w.publish(2, "")
		w.awaitState(t, "a", 1)
		w.publish(3, "a")
		time.Sleep(3 * time.Minute)
		w.awaitState(t, "a", 3)
		w.expectRestart(t)
	})
}

func TestABadFileChangesNothing(t *testing.T) {
	for reason, c := range map[string]struct {
		seen filewatch.Snapshot
		says string
	}{
		"it does not parse":        {filewatch.Snapshot{Content: []byte("version: [")}, "line"},
		"it is empty":              {filewatch.Snapshot{}, "read version: the file has none"},
		"it is gone":               {missingFile, "not exist"},
		"it cannot be read":        {filewatch.Snapshot{Err: errors.New("input/output error")}, "input/output error"},
		"it is older than the one": {newFile(4, "c"), "older than 5"},
	} {
		t.Run(reason, func(t *testing.T) {
			runTest(t, func(t *testing.T, w *testRunner) {
				w.publish(5, "a b")
				w.files <- []filewatch.Snapshot{c.seen, missingFile}
				w.awaitState(t, "a b", 5)
				if !strings.Contains(w.problem, c.says) || !strings.Contains(w.problem, "keeping the last valid list") {
					t.Errorf("says %q, want %q", w.problem, c.says)
				}
				w.publish(6, "b")
				w.awaitState(t, "b", 6)
				if w.problem != "" {
					t.Errorf("still says %q", w.problem)
				}
			})
		})
	}
}

func TestWaitsWithoutAFile(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.files <- []filewatch.Snapshot{missingFile, missingFile}
		w.awaitState(t, "", 0)
		if !strings.Contains(w.problem, "not exist") {
			t.Errorf("says %q", w.problem)
		}
		time.Sleep(time.Hour)
		w.publish(1, "a")
		w.awaitState(t, "a", 1)
	})
}

// A container restarts with a stale file: its jobs were removed by a list that an earlier process acknowledged.
func TestRestartOnAStaleFileStartsNothing(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.publishAbove(3, "a b", "5\n")
		w.awaitState(t, "", 3)
		if !strings.Contains(w.problem, "version 3 and the pod's annotation asks for 5") {
			t.Errorf("says %q", w.problem)
		}
		w.publishAbove(4, "a b c", "5")
		w.awaitState(t, "", 4)
		w.publishAbove(5, "b", "5")
		w.awaitState(t, "b", 5)
		if slices.Contains(w.log, "start a") || w.problem != "" {
			t.Errorf("journal %q, problem %q", w.log, w.problem)
		}
	})
}

func TestMinimumVersion(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.publishAbove(1, "a", "") // a pod without the annotation
		w.awaitState(t, "a", 1)
		w.publishAbove(1, "a", "2") // the annotation arrives before the file: what runs goes on
		w.awaitState(t, "a", 1)
		w.publishAbove(2, "a b", "2")
		w.awaitState(t, "a b", 2)
		w.publishAbove(3, "b c", "nonsense") // stops are always allowed
		w.awaitState(t, "b", 3)
		if !strings.Contains(w.problem, `"nonsense"`) || !strings.Contains(w.problem, "nothing starts") {
			t.Errorf("says %q", w.problem)
		}
		w.publishAbove(3, "b c", "3")
		w.awaitState(t, "b c", 3)
		w.publishAbove(4, "b c d", "9")
		w.awaitState(t, "b c", 4)
		w.publishAbove(5, "b c d", "4") // it never falls
		w.awaitState(t, "b c", 5)
		w.publishAbove(9, "b c d", "4")
		w.awaitState(t, "b c d", 9)
	})
}

// The operator never does this; users with an editor do.
func TestOneVersionThatMeansTwoThings(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.stopTakes["a"] = time.Minute
		w.publish(1, "a b")
		w.publish(1, "b")
		w.awaitState(t, "a b", 0)
		time.Sleep(time.Minute)
		w.awaitState(t, "b", 1)
	})
}

func TestAVersionWithoutChangesForThisWorker(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.publish(1, "a")
		w.lists[7] = "a"
		w.files <- []filewatch.Snapshot{{Content: []byte("version: 7\nworkloads: {swarm-worker-0: {jobs: [a], version: 1}}")}, missingFile}
		w.awaitState(t, "a", 7)
		if w.version != 1 || len(w.log) != 3 {
			t.Errorf("own version %d, journal %q", w.version, w.log)
		}
	})
}

func TestTheEndDoesNotWaitForAnotherTry(t *testing.T) {
	runTest(t, func(t *testing.T, w *testRunner) {
		w.stopFails["a"] = 7
		w.publish(1, "a")
		w.publish(2, "")
		time.Sleep(time.Minute) // six have failed, and the next is half a minute away
		synctest.Wait()
		w.stopFails["a"] = 0
		before := time.Now()
		w.cancel()
		w.done <- <-w.done // for the end of the test
		if took := time.Since(before); took != 0 {
			t.Errorf("the end took %s", took)
		}
	})
}

func TestAtTheEndEverythingStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRunner()
		w.startTakes["slow"], w.stopTakes["a"], w.startFails["broken"], w.stopFails["stubborn"] = time.Minute, time.Minute, 1000, 1000
		w.run()
		w.publish(1, "a b broken slow stubborn")
		acknowledged := w.config
		wrong, err := w.stop()
		if wrong != "" || err == nil || err.Error() != `stop job "stubborn": stubborn does not heed` {
			t.Errorf("%s: %v", wrong, err)
		}
		if got := strings.Join(w.runningJobs(), " "); got != "stubborn" || w.config != acknowledged {
			t.Errorf("running %q, acknowledged %d", got, w.config)
		}
	})
}

package task

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

func TestJitterSpreadsTasksAndIsTheSameEveryTime(t *testing.T) {
	pauses := map[time.Duration]bool{}
	for n := range 100 {
		task := &v1alpha1.Task{}
		task.UID = types.UID(fmt.Sprint("uid-", n))
		p := &planner{task: task}
		pause := p.withJitter(time.Minute, 1)
		if pause < time.Minute || pause > 66*time.Second {
			t.Errorf("a pause of a minute became %s", pause)
		}
		if p.withJitter(time.Minute, 1) != pause {
			t.Error("the same task and attempt got another pause")
		}
		if p.withJitter(time.Minute, 2) == pause {
			t.Error("the next attempt got the same pause")
		}
		pauses[pause.Truncate(time.Second)] = true
	}
	if len(pauses) != 6 {
		t.Errorf("100 tasks are tried again in %d different seconds, want 6", len(pauses))
	}
}

func TestPauseIsNeverShorterThanItsRules(t *testing.T) {
	task := &v1alpha1.Task{}
	withRetries(3, 0)(task)
	for _, past := range []time.Duration{0, time.Millisecond, 999 * time.Millisecond} {
		now := noon.Truncate(time.Second).Add(past)
		got := plan(task, endSnapshot(linkv1.Outcome_OUTCOME_FAILED, withReason("Broken")), now).Status.NextRetryTime.Sub(now)
		if got < 2*time.Second || got > 3200*time.Millisecond {
			t.Errorf("%s past the second: %s", past, got)
		}
	}
}

// planHandBacks plans consecutive hand-backs, each after the same run time.
func planHandBacks(task *v1alpha1.Task, times int, ran time.Duration, outcome linkv1.Outcome) Plan {
	var last Plan
	for range times {
		epoch := task.Status.Epoch + 1
		again := func(end *dispatch.AttemptEnd) {
			end.Epoch, end.Attempt, end.Since = epoch, int32(epoch), noon.Add(-ran)
		}
		last = plan(task, endSnapshot(outcome, again), noon)
		task.Status = last.Status
	}
	return last
}

func TestHandBacksWaitLongerEachTime(t *testing.T) {
	const handedBack, declined = linkv1.Outcome_OUTCOME_HANDED_BACK, linkv1.Outcome_OUTCOME_DECLINED
	for _, c := range []struct {
		reason  string
		times   int
		ran     time.Duration
		outcome linkv1.Outcome
		counts  int32
		pause   time.Duration
	}{
		{"the first costs no time", 1, time.Second, handedBack, 1, 0},
		{"nor does a declined one", 1, time.Second, declined, 1, 0},
		{"the second waits", 2, time.Second, handedBack, 2, time.Second},
		{"declined or handed back is the same", 2, time.Second, declined, 2, time.Second},
		{"each waits longer", 5, time.Second, handedBack, 5, 8 * time.Second},
		{"up to a minute", 20, time.Second, handedBack, 20, time.Minute},
		{"a long run begins anew", 30, handBackResetPeriod, handedBack, 1, 0},
		{"a run that is not so long does not", 3, handBackResetPeriod - time.Second, handedBack, 3, 2 * time.Second},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got := planHandBacks(&v1alpha1.Task{}, c.times, c.ran, c.outcome).Status
			waiting := got.Phase == v1alpha1.TaskPending && got.Reason == string(v1alpha1.ReasonHandedBack)
			if !waiting || got.HandBacks != c.counts || got.Retries != 0 {
				t.Errorf("got %+v", got)
			}
			assertPause(t, got.NextRetryTime, c.pause)
		})
	}
}

// assertPause expects a pause with jitter, in whole seconds.
func assertPause(t *testing.T, until *metav1.Time, want time.Duration) {
	t.Helper()
	if (until != nil) != (want > 0) {
		t.Fatalf("next try at %v, want a pause of %s", until, want)
	}
	if until != nil && (until.Sub(noon) < want || until.Sub(noon) > want*11/10+time.Second) {
		t.Errorf("a pause of %s, want %s", until.Sub(noon), want)
	}
}

func TestHandBacksHaveALimit(t *testing.T) {
	const handedBack = linkv1.Outcome_OUTCOME_HANDED_BACK
	got := planHandBacks(&v1alpha1.Task{}, 21, time.Second, handedBack).Status
	if got.Phase != v1alpha1.TaskFailed || got.Reason != string(v1alpha1.ReasonTooManyHandBacks) || got.HandBacks != 21 {
		t.Errorf("got %+v", got)
	}
}

// An agent that hands everything back does not keep the operator busy.
func TestTaskThatIsHandedBackForEverFails(t *testing.T) {
	for _, outcome := range []linkv1.Outcome{linkv1.Outcome_OUTCOME_HANDED_BACK, linkv1.Outcome_OUTCOME_DECLINED} {
		simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
			sim.submit("t", behavior{duration: 10 * time.Millisecond, outcome: outcome, reason: "NotToday"})
			sim.advance(time.Minute)
			if runs := len(sim.attempts.runsOf("t")); runs < 5 || runs > 8 {
				t.Errorf("%s: %d attempts in the first minute", outcome, runs)
			}
			sim.advance(20 * time.Minute)
			status, runs := sim.status("t"), len(sim.attempts.runsOf("t"))
			if status.Reason != string(v1alpha1.ReasonTooManyHandBacks) || runs != 21 || status.HandBacks != 21 || status.Retries != 0 {
				t.Errorf("%s: %d attempts, %+v", outcome, runs, status)
			}
		})
	}
}

func TestTaskThatIsHandedBackOnceGoesOnAtOnce(t *testing.T) {
	simulate(t, []string{"a", "b"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{})
		sim.setBehaviorPerAttempt("t", func(attempt int32) behavior {
			if attempt == 1 {
				return behavior{duration: 2 * time.Second, outcome: linkv1.Outcome_OUTCOME_HANDED_BACK}
			}
			return behavior{duration: time.Second}
		})
		sim.advance(10 * time.Second)
		sim.assertCompleted(t, "t", 2)
		if runs := sim.attempts.runsOf("t"); runs[1].start.Sub(runs[0].end) > 100*time.Millisecond {
			t.Error(sim.describe())
		}
	})
}

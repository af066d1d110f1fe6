package dispatch

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// measurePause stores when a task is tried again and returns how long the dispatcher waits.
func (f *fixture) measurePause(t *testing.T, task *v1alpha1.Task, pause time.Duration) time.Duration {
	t.Helper()
	task.Status.NextRetryTime = new(metav1.NewTime(time.Now().Add(pause)))
	f.bumpVersion(task)
	began := time.Now()
	f.Observe(task, TaskInput{})
	for f.sent = nil; len(f.takeAssignments()) == 0; f.runStep() {
		time.Sleep(20 * time.Millisecond)
		if time.Since(began) > 15*time.Minute {
			t.Fatal("never given out again")
		}
	}
	return time.Since(began)
}

func TestRetryComesWithinTheSecondAfterItsTime(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		task := f.createTask("t", "s")
		f.joinAgent(t, "a", "s", 1)
		if paused := f.measurePause(t, task, 20*time.Second); paused < 20*time.Second || paused > 21*time.Second {
			t.Errorf("given out after %s", paused)
		}
	})
}

// A time that was written by a leader with a clock an hour ahead does not hold up the task for an hour.
func TestPauseIsNotLongerThanItsRulesWhateverTheClocksSay(t *testing.T) {
	for maximum, want := range map[int32]time.Duration{0: 68 * time.Second, 60: 68 * time.Second, 600: 662 * time.Second} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			task := f.createTask("t", "s")
			task.Spec.Retry.MaxSeconds = maximum
			f.joinAgent(t, "a", "s", 1)
			if paused := f.measurePause(t, task, time.Hour); paused < want || paused > want+time.Second {
				t.Errorf("maxSeconds %d: given out after %s, want %s", maximum, paused, want)
			}
		})
	}
}

func TestTasksThatFailedTogetherAreSpreadOverASecond(t *testing.T) {
	moments := map[time.Duration]bool{}
	for n := range 100 {
		task := &v1alpha1.Task{}
		task.UID, task.Status.Attempt = "uid", int32(n)
		after := retryJitter(task)
		if after < 0 || after >= time.Second {
			t.Errorf("a part of a second: %s", after)
		}
		moments[after/(100*time.Millisecond)] = true
	}
	if len(moments) != 10 {
		t.Errorf("in %d of 10 tenths of a second", len(moments))
	}
}

// The pause after a declined assignment does not end a longer one.
func TestDeclinedTaskKeepsItsLongerPause(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		task := f.createTask("t", "s")
		f.runStep()
		f.sendResult(a, f.takeAssignments()[0], linkv1.Outcome_OUTCOME_DECLINED)
		task.Status.NextRetryTime = new(metav1.NewTime(time.Now().Add(20 * time.Second)))
		f.storeStatus(task)
		f.grantCredit(a, 2)
		time.Sleep(19 * time.Second)
		f.runStep()
		if held := f.Observe(task, TaskInput{}).Assignment; held != nil {
			t.Errorf("given out again too early: %+v", held)
		}
		time.Sleep(2 * time.Second)
		f.runStep()
		if f.Observe(task, TaskInput{}).Assignment == nil {
			t.Error("not given out again")
		}
	})
}

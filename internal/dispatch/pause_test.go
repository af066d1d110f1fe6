package dispatch

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// pausedFor stores when a task is tried again and returns how long the board waits.
func (d *desk) pausedFor(t *testing.T, task *v1alpha1.Task, pause time.Duration) time.Duration {
	t.Helper()
	task.Status.NextRetryTime = new(metav1.NewTime(time.Now().Add(pause)))
	d.stores(task)
	began := time.Now()
	d.Observe(task, Brief{})
	for d.sent = nil; len(d.assigned()) == 0; d.steps() {
		time.Sleep(20 * time.Millisecond)
		if time.Since(began) > 15*time.Minute {
			t.Fatal("never given out again")
		}
	}
	return time.Since(began)
}

func TestRetryComesWithinTheSecondAfterItsTime(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		task := d.task("t", "s")
		d.joins(t, "a", "s", 1)
		if paused := d.pausedFor(t, task, 20*time.Second); paused < 20*time.Second || paused > 21*time.Second {
			t.Errorf("given out after %s", paused)
		}
	})
}

// A time that was written by a leader with a clock an hour ahead does not hold up the task for an hour.
func TestPauseIsNotLongerThanItsRulesWhateverTheClocksSay(t *testing.T) {
	for most, want := range map[int32]time.Duration{0: 68 * time.Second, 60: 68 * time.Second, 600: 662 * time.Second} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			task := d.task("t", "s")
			task.Spec.Retry.MaxSeconds = most
			d.joins(t, "a", "s", 1)
			if paused := d.pausedFor(t, task, time.Hour); paused < want || paused > want+time.Second {
				t.Errorf("maxSeconds %d: given out after %s, want %s", most, paused, want)
			}
		})
	}
}

func TestTasksThatFailedTogetherAreSpreadOverASecond(t *testing.T) {
	moments := map[time.Duration]bool{}
	for n := range 100 {
		task := &v1alpha1.Task{}
		task.UID, task.Status.Attempt = "uid", int32(n)
		after := spread(task)
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
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		d.concludes(a, d.assigned()[0], linkv1.Outcome_OUTCOME_DECLINED)
		task.Status.NextRetryTime = new(metav1.NewTime(time.Now().Add(20 * time.Second)))
		d.settles(task)
		d.credit(a, 2)
		time.Sleep(19 * time.Second)
		d.steps()
		if held := d.Observe(task, Brief{}).Held; held != nil {
			t.Errorf("given out again too early: %+v", held)
		}
		time.Sleep(2 * time.Second)
		d.steps()
		if d.Observe(task, Brief{}).Held == nil {
			t.Error("not given out again")
		}
	})
}

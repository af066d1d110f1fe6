package task

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// fixedSkew is a clock that is ahead by a fixed duration.
type fixedSkew time.Duration

func (s fixedSkew) Skew() (ahead time.Duration, reliable bool) {
	return time.Duration(s), time.Duration(s).Abs() <= 5*time.Second
}

// taskWithLimits returns a task that was created an hour ago and has limits of a minute.
func taskWithLimits(limits v1alpha1.TaskTimeouts) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	task.Spec.Timeouts = &limits
	return task
}

func TestTimeLimitsWaitForAClockThatIsRight(t *testing.T) {
	for name, limits := range map[string]v1alpha1.TaskTimeouts{"total": {TotalSeconds: 60}, "queue": {QueueSeconds: 60}} {
		task := taskWithLimits(limits)
		for skew, fails := range map[time.Duration]bool{0: true, 5 * time.Second: true, time.Hour: false, -time.Hour: false} {
			snapshot := waitingSnapshot(v1alpha1.ReasonNoFreeSlot, time.Hour)
			snapshot.clock = (&reconciler{clock: fixedSkew(skew)}).readClock()
			snapshot.stopRequest = stopRequestOf(task, noon, snapshot.clock)
			got := plan(task, snapshot, noon)
			if failed := got.Status.Reason == string(v1alpha1.ReasonTimedOut); failed != fails {
				t.Errorf("%s, %s ahead: %+v", name, skew, got.Status)
			}
			if !fails && (got.RequeueAt.Sub(noon) != clockRetryInterval || got.RequeueReason != clockSkewed) {
				t.Errorf("%s, %s ahead: looks again in %s, %s", name, skew, got.RequeueAt.Sub(noon), got.RequeueReason)
			}
		}
	}
}

func TestTaskWithoutLimitsDoesNotCareAboutTheClock(t *testing.T) {
	snapshot := waitingSnapshot("", 0)
	snapshot.clock = clockState{skewed: true, ahead: time.Hour}
	if got := plan(&v1alpha1.Task{}, snapshot, noon); !got.RequeueAt.IsZero() {
		t.Errorf("looks again in %s", got.RequeueAt.Sub(noon))
	}
}

func TestFinishedTaskIsKeptWhileTheClockIsWrong(t *testing.T) {
	for skew, gone := range map[time.Duration]bool{0: true, time.Hour: false, -time.Hour: false} {
		deleted := &recordingClient{}
		r := &reconciler{client: deleted, clock: fixedSkew(skew)}
		again, err := r.deleteExpired(t.Context(), finishedTask(new(int32(60))), snapshot{clock: r.readClock()}, noon.Add(time.Hour))
		if err != nil || (len(deleted.deletedUIDs) > 0) != gone ||
			!gone && again != kit.RequeueAfter(clockRetryInterval, clockSkewed).LowPriority() {
			t.Errorf("%s ahead: deleted %v, %+v, %v", skew, deleted.deletedUIDs, again, err)
		}
	}
}

// A leader with a correct clock counts from the times written by one with a wrong clock.
func TestCompletionTimeIsTheServersTime(t *testing.T) {
	for _, ahead := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour} {
		done := endSnapshot(linkv1.Outcome_OUTCOME_SUCCEEDED)
		done.clock = clockState{skewed: ahead != 0, ahead: ahead}
		if got := plan(&v1alpha1.Task{}, done, noon.Add(ahead)).Status.CompletionTime; !got.Time.Equal(noon.Truncate(time.Second)) {
			t.Errorf("%s ahead: %s", ahead, got)
		}
	}
}

// An operator whose clock is an hour ahead of the API server's fails no task, and enforces due timeouts when its clock is correct again.
func TestLeaderWithAWrongClockFailsNothing(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.store.clockBehind = time.Hour
		sim.clock = fixedSkew(time.Hour)
		sim.changeLeader()
		limits := func(spec *v1alpha1.TaskSpec) {
			spec.Timeouts = &v1alpha1.TaskTimeouts{TotalSeconds: 600, QueueSeconds: 300}
		}
		sim.submit("t", behavior{duration: 10 * time.Second}, limits)
		sim.submit("u", behavior{duration: time.Hour}, limits)
		sim.advance(2 * time.Minute)
		sim.assertCompleted(t, "t", 1)
		sim.advance(20 * time.Minute)
		if status := sim.status("u"); status.Phase != v1alpha1.TaskRunning {
			t.Fatalf("failed by a wrong clock: %+v", status)
		}
		sim.clock = fixedSkew(0)
		sim.changeLeader()
		sim.advance(5 * time.Minute)
		if status := sim.status("u"); status.Reason != string(v1alpha1.ReasonTimedOut) {
			t.Errorf("%+v", status)
		}
	})
}

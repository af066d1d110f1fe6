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

// limited returns a task that was created an hour ago and has limits of a minute.
func limited(limits v1alpha1.TaskTimeouts) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	task.Spec.Timeouts = &limits
	return task
}

func TestTimeLimitsWaitForAClockThatIsRight(t *testing.T) {
	for name, limits := range map[string]v1alpha1.TaskTimeouts{"total": {TotalSeconds: 60}, "queue": {QueueSeconds: 60}} {
		task := limited(limits)
		for skew, fails := range map[time.Duration]bool{0: true, 5 * time.Second: true, time.Hour: false, -time.Hour: false} {
			seen := waits(v1alpha1.ReasonNoFreeSlot, time.Hour)
			seen.clock = (&reconciler{clock: fixedSkew(skew)}).readClock()
			seen.stop = stopping(task, noon, seen.clock)
			got := plan(task, seen, noon)
			if failed := got.Status.Reason == string(v1alpha1.ReasonTimedOut); failed != fails {
				t.Errorf("%s, %s ahead: %+v", name, skew, got.Status)
			}
			if !fails && (got.Again.Sub(noon) != clockLookAgain || got.Why != clockSkewed) {
				t.Errorf("%s, %s ahead: looks again in %s, %s", name, skew, got.Again.Sub(noon), got.Why)
			}
		}
	}
}

func TestTaskWithoutLimitsDoesNotCareAboutTheClock(t *testing.T) {
	seen := waits("", 0)
	seen.clock = clock{skewed: true, ahead: time.Hour}
	if got := plan(&v1alpha1.Task{}, seen, noon); !got.Again.IsZero() {
		t.Errorf("looks again in %s", got.Again.Sub(noon))
	}
}

func TestFinishedTaskIsKeptWhileTheClockIsWrong(t *testing.T) {
	for skew, gone := range map[time.Duration]bool{0: true, time.Hour: false, -time.Hour: false} {
		deleted := &deleter{}
		r := &reconciler{client: deleted, clock: fixedSkew(skew)}
		again, err := r.expire(t.Context(), finished(new(int32(60))), world{clock: r.readClock()}, noon.Add(time.Hour))
		if err != nil || (len(deleted.deleted) > 0) != gone || !gone && again != kit.RequeueAfter(clockLookAgain, clockSkewed).LowPriority() {
			t.Errorf("%s ahead: deleted %v, %+v, %v", skew, deleted.deleted, again, err)
		}
	}
}

// A leader with a correct clock counts from the times written by one with a wrong clock.
func TestCompletionTimeIsTheServersTime(t *testing.T) {
	for _, ahead := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour} {
		done := ended(linkv1.Outcome_OUTCOME_SUCCEEDED)
		done.clock = clock{skewed: ahead != 0, ahead: ahead}
		if got := plan(&v1alpha1.Task{}, done, noon.Add(ahead)).Status.CompletionTime; !got.Time.Equal(noon.Truncate(time.Second)) {
			t.Errorf("%s ahead: %s", ahead, got)
		}
	}
}

// An operator whose clock is an hour ahead of the API server's fails no task, and enforces due timeouts when its clock is correct again.
func TestLeaderWithAWrongClockFailsNothing(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.store.behind = time.Hour
		w.clock = fixedSkew(time.Hour)
		w.next()
		limits := func(spec *v1alpha1.TaskSpec) {
			spec.Timeouts = &v1alpha1.TaskTimeouts{TotalSeconds: 600, QueueSeconds: 300}
		}
		w.submit("t", work{takes: 10 * time.Second}, limits)
		w.submit("u", work{takes: time.Hour}, limits)
		w.pass(2 * time.Minute)
		w.completes(t, "t", 1)
		w.pass(20 * time.Minute)
		if status := w.status("u"); status.Phase != v1alpha1.TaskRunning {
			t.Fatalf("failed by a wrong clock: %+v", status)
		}
		w.clock = fixedSkew(0)
		w.next()
		w.pass(5 * time.Minute)
		if status := w.status("u"); status.Reason != string(v1alpha1.ReasonTimedOut) {
			t.Errorf("%+v", status)
		}
	})
}

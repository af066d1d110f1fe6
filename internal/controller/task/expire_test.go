package task

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// recordingClient records deletions.
type recordingClient struct {
	client.Client
	err         error
	deletedUIDs []types.UID // as named by the preconditions
}

func (c *recordingClient) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	applied := (&client.DeleteOptions{}).ApplyOptions(options)
	if applied.Preconditions == nil || applied.Preconditions.UID == nil {
		return errors.New("deleted whatever has that name")
	}
	c.deletedUIDs = append(c.deletedUIDs, *applied.Preconditions.UID)
	return c.err
}

// finishedTask returns a task that was completed at noon.
func finishedTask(ttl *int32) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.UID, task.Spec.TTLSecondsAfterFinished = "uid-t", ttl
	task.Status.Phase, task.Status.CompletionTime = v1alpha1.TaskCompleted, new(metav1.NewTime(noon))
	return task
}

func swarmWithTTL(ttl *int32) *v1alpha1.Swarm {
	swarm := &v1alpha1.Swarm{}
	swarm.Spec.Tasks.TTLSecondsAfterFinished = ttl
	return swarm
}

// expiresIn is the result that schedules the expiry of a task with low priority.
func expiresIn(left time.Duration) kit.Result { return kit.RequeueAfter(left, "Expires").LowPriority() }

func TestFinishedTaskIsKeptForItsTTL(t *testing.T) {
	for _, c := range []struct {
		reason string
		task   *int32
		swarm  *v1alpha1.Swarm
		age    time.Duration
		gone   bool
		again  kit.Result
	}{
		{"no TTL anywhere: kept for good", nil, swarmWithTTL(nil), 1000 * time.Hour, false, kit.Done()},
		{"no TTL and no swarm: kept for good", nil, nil, 1000 * time.Hour, false, kit.Done()},
		{"just finished", new(int32(60)), nil, 0, false, expiresIn(time.Minute)},
		{"a second is left", new(int32(60)), nil, 59 * time.Second, false, expiresIn(time.Second)},
		{"its time is over", new(int32(60)), nil, time.Minute, true, kit.Done()},
		{"long over", new(int32(60)), nil, time.Hour, true, kit.Done()},
		{"zero is at once", new(int32(0)), nil, 0, true, kit.Done()},
		{"the swarm's, when the task has none", nil, swarmWithTTL(new(int32(30))), 29 * time.Second, false, expiresIn(time.Second)},
		{"the swarm's, and over", nil, swarmWithTTL(new(int32(30))), 30 * time.Second, true, kit.Done()},
		{"the task's own goes before the swarm's", new(int32(60)), swarmWithTTL(new(int32(0))), 30 * time.Second, false,
			expiresIn(30 * time.Second)},
	} {
		t.Run(c.reason, func(t *testing.T) {
			recorder := &recordingClient{}
			r := &reconciler{client: recorder}
			again, err := r.deleteExpired(t.Context(), finishedTask(c.task), snapshot{swarm: c.swarm}, noon.Add(c.age))
			if err != nil || again != c.again {
				t.Errorf("got %+v, %v, want %+v", again, err, c.again)
			}
			if gone := len(recorder.deletedUIDs) > 0; gone != c.gone || gone && recorder.deletedUIDs[0] != "uid-t" {
				t.Errorf("deleted %v, want %v", recorder.deletedUIDs, c.gone)
			}
		})
	}
}

// A reconcile that has stored a result deletes nothing: others may be waiting to store theirs.
func TestTaskThatHasJustFinishedIsDeletedLater(t *testing.T) {
	for ttl, want := range map[int32]kit.Result{0: expiresIn(0), 60: expiresIn(time.Minute)} {
		if got := expiryResult(finishedTask(&ttl), snapshot{}, noon); got != want {
			t.Errorf("a TTL of %d s: %+v", ttl, got)
		}
	}
	if got := expiryResult(finishedTask(nil), snapshot{}, noon); got != kit.Done() {
		t.Errorf("no TTL: %+v", got)
	}
}

func TestTaskWithoutAnEndIsNeverExpired(t *testing.T) {
	task := finishedTask(new(int32(0)))
	task.Status.CompletionTime = nil
	recorder := &recordingClient{}
	if _, err := (&reconciler{client: recorder}).deleteExpired(t.Context(), task, snapshot{}, noon); err != nil ||
		len(recorder.deletedUIDs) > 0 {
		t.Errorf("deleted %v, %v", recorder.deletedUIDs, err)
	}
}

func TestExpiryThatFailsIsTriedAgain(t *testing.T) {
	for reason, c := range map[string]struct {
		err   error
		fails bool
	}{
		"already gone":         {apierrors.NewNotFound(tasksResource, "t"), false},
		"another of that name": {apierrors.NewConflict(tasksResource, "t", errServer), false},
		"the server failed":    {errServer, true},
	} {
		t.Run(reason, func(t *testing.T) {
			_, err := (&reconciler{client: &recordingClient{err: c.err}}).deleteExpired(t.Context(), finishedTask(new(int32(0))), snapshot{}, noon)
			if (err != nil) != c.fails || c.fails && !errors.Is(err, c.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

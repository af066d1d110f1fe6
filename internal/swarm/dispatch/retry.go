package dispatch

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// maxHandBackPause is the longest pause after a hand-back, whatever the retry rules of the task are.
const maxHandBackPause = time.Minute

// retryTimeOf returns when a task may be assigned again. Status holds whole seconds, so tasks that failed together are spread
// over the second after that. The time comes from the clock of the leader that wrote it: however wrong that clock or ours is,
// a pause that begins now ends at the latest when the rules require.
func retryTimeOf(task *v1alpha1.Task, now time.Time) time.Time {
	until := task.Status.NextRetryTime.Add(retryJitter(task))
	if latest := now.Add(maxPause(task.Spec.Retry)); until.After(latest) {
		return latest
	}
	return until
}

// maxPause is the longest pause that the rules allow, including jitter and rounding to seconds.
func maxPause(rules v1alpha1.TaskRetry) time.Duration {
	longest := max(time.Duration(max(rules.MaxSeconds, rules.InitialSeconds))*time.Second, maxHandBackPause)
	return longest*11/10 + 2*time.Second
}

// retryJitter returns a fraction of a second that depends on the task and the attempt alone.
func retryJitter(task *v1alpha1.Task) time.Duration {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(string(task.UID) + "." + strconv.Itoa(int(task.Status.Attempt))))
	return time.Duration(digest.Sum32()%1000) * time.Millisecond
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

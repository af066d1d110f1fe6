package task

import (
	"hash/fnv"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// handBackRules are the pauses between attempts that are handed back, from the second one on.
var handBackRules = v1alpha1.TaskRetry{InitialSeconds: 1, Factor: 2, MaxSeconds: 60}

// jitterPercent is the maximum jitter added to a pause.
const jitterPercent = 10

// backoff grows by the factor with every retry.
func backoff(rules v1alpha1.TaskRetry, retries int32) time.Duration {
	seconds, limit := int64(max(rules.InitialSeconds, 1)), int64(max(rules.MaxSeconds, rules.InitialSeconds, 1))
	for range retries - 1 {
		seconds = min(seconds*int64(max(rules.Factor, 1)), limit)
	}
	return time.Duration(min(seconds, limit)) * time.Second
}

// withJitter lengthens a pause slightly, so that tasks that failed together are not all retried at the same time. The jitter depends only
// on the task and the attempt: the same input gives the same plan.
func (p *planner) withJitter(pause time.Duration, attempt int32) time.Duration {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(string(p.task.UID) + "/" + strconv.Itoa(int(attempt))))
	return pause + pause*jitterPercent/100*time.Duration(digest.Sum32()%1000)/1000
}

// setRetryTime delays the assignment of the task. The status holds whole seconds, and a pause is never shortened.
func (p *planner) setRetryTime(pause time.Duration) {
	p.Status.NextRetryTime = new(metav1.NewTime(p.now.Add(pause).Truncate(time.Second).Add(time.Second)))
}

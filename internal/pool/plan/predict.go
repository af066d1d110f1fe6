package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// A Prediction is a plan, and what it was made from.
type Prediction struct {
	Plan
	Records  []assign.Record  // what workers may hold now, by ordinal
	Before   *assign.Revision // where the jobs are now
	Decision assign.Decision  // where they should be
}

// Predict returns what the operator will do once every worker is ready. Workers have loaded what the status says, a pause is over, and
// the pool has scaled its workload.
func Predict(pool *v1alpha1.WorkerPool, snapshot Snapshot, now time.Time) Prediction {
	pool = pool.DeepCopy()
	pool.Spec.Mode = v1alpha1.PoolRunning
	pool.Spec.Refresh.Acknowledge = &v1alpha1.PoolAcknowledge{} // whatever proves that a list was loaded, the status has it
	if pool.Spec.Replicas != nil {
		snapshot.Workload.Replicas = int(*pool.Spec.Replicas) // the pool will have scaled it
	}
	if snapshot.Problem == nil {
		snapshot.Pods = snapshot.readyPods(snapshot.wantedReplicas(pool), now)
		snapshot.AckResponses = snapshot.acknowledged(pool)
	}
	p := newPlanner(pool, snapshot, Clocks{}, now)
	prediction := Prediction{Records: slices.Clone(p.records)}
	prediction.Before = assign.BaseRevision(snapshot.newestRevision(), prediction.Records)
	if p.Blocker == nil {
		p.decide()
	}
	prediction.Plan, prediction.Decision = p.Plan, p.decision
	return prediction
}

// readyPods returns the pods of the workload once it has as many as it should have, all of them ready.
func (s Snapshot) readyPods(wanted int, now time.Time) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range s.Pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			pods = append(pods, readyPod(pod))
		}
	}
	if s.Workload.usesSlots() {
		for n := range max(0, wanted-len(pods)) {
			pods = append(pods, newPod(nameOfNewPod(n), now.Add(time.Duration(n)*time.Second)))
		}
		return pods
	}
	podsByName := Snapshot{Pods: pods}.podsByName()
	for ordinal := s.Workload.FirstOrdinal; ordinal < s.Workload.FirstOrdinal+wanted; ordinal++ {
		if name := s.Workload.podName(ordinal); podsByName[name] == nil {
			pods = append(pods, newPod(name, now))
		}
	}
	return pods
}

// nameOfNewPod stands for the name of a pod that only its ReplicaSet will choose.
func nameOfNewPod(n int) string {
	if n == 0 {
		return "(new)"
	}
	return fmt.Sprintf("(new %d)", n+1)
}

func newPod(name string, created time.Time) *corev1.Pod {
	return readyPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid of " + name), CreationTimestamp: metav1.NewTime(created),
	}})
}

// readyPod returns a copy of a pod that is ready.
func readyPod(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = nil
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// acknowledged returns the answers of the workers that have loaded their lists according to the status.
func (s Snapshot) acknowledged(pool *v1alpha1.WorkerPool) map[string]AckResponse {
	if pool.Status.Version != s.Published.Version {
		return nil // the status is about other lists
	}
	loaded := map[string]bool{}
	for _, worker := range pool.Status.Workers {
		loaded[worker.Name] = worker.Acknowledged == v1alpha1.AckReceived || worker.Acknowledged == v1alpha1.AckAssumed
	}
	all := len(s.History) > 0 && pool.Status.ConvergedRevision == s.newestNumber()
	responses, pods := map[string]AckResponse{}, s.podsByName()
	for _, entry := range s.Published.Entries {
		if pod := pods[entry.Worker]; pod != nil && (all || loaded[entry.Worker]) {
			responses[entry.Worker] = AckResponse{
				Worker: entry.Worker, PodUID: string(pod.UID), Version: entry.Version, FileVersion: entry.Version,
			}
		}
	}
	return responses
}

package workerpool

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	poolstate "github.com/swarm-io/swarm-operator/internal/pool/state"
)

// verifyAbsence reads the pods from the API server before the absence of a pod has any effect. A pod can leave its workload and keep
// running: its labels no longer match the selector, or its StatefulSet was deleted with --cascade=orphan. A worker's pod is therefore gone
// only if the API server has no pod of that name, whatever its labels, owner or phase.
func (r *reconciler) verifyAbsence(ctx context.Context, snapshot *plan.Snapshot, state *localState) error {
	pods, err := poolstate.Pods(ctx, r.apiReader, snapshot.Workload)
	if err != nil {
		return err
	}
	snapshot.Pods, snapshot.PodsVerified = pods, true
	podsByName, err := poolstate.PodsNamed(ctx, r.apiReader, snapshot.Workload.Object.GetNamespace(), snapshot.AbsentWorkers())
	if err != nil {
		return err
	}
	snapshot.ClassifyAbsent(podsByName)
	snapshot.RecordPods(&state.clocks)
	return nil
}

// watchReleased remembers the pods that left the workload of a pool: only their name leads back to the pool.
func (r *reconciler) watchReleased(pool types.NamespacedName, released map[string]*corev1.Pod) {
	r.lock.Lock()
	defer r.lock.Unlock()
	maps.DeleteFunc(r.releasedPods, func(_, owner types.NamespacedName) bool { return owner == pool })
	for name := range released {
		r.releasedPods[types.NamespacedName{Namespace: pool.Namespace, Name: name}] = pool
	}
}

// poolsOfPod finds the pools of a pod's workload, and the pool that waits for a pod that left it.
func (r *reconciler) poolsOfPod(ctx context.Context, pod client.Object) []types.NamespacedName {
	names := r.poolsOfWorkload(workloadOfPod)(ctx, pod)
	r.lock.Lock()
	defer r.lock.Unlock()
	if pool, found := r.releasedPods[client.ObjectKeyFromObject(pod)]; found {
		names = append(names, pool)
	}
	return names
}

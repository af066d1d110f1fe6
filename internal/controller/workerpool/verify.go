package workerpool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// verifyAbsence reads the pods from the API server before the absence of a pod has any effect. A pod can leave its workload and keep
// running: its labels no longer match the selector, or its StatefulSet was deleted with --cascade=orphan. A worker's pod is therefore gone
// only if the API server has no pod of that name, whatever its labels, owner or phase.
func (r *reconciler) verifyAbsence(ctx context.Context, snapshot *plan.Snapshot, state *localState) error {
	pods, err := r.listLivePods(ctx, snapshot.Workload)
	if err != nil {
		return err
	}
	snapshot.Pods, snapshot.PodsVerified = pods, true
	podsByName, err := r.getLivePods(ctx, snapshot.Workload.Object.GetNamespace(), snapshot.AbsentWorkers())
	if err != nil {
		return err
	}
	snapshot.ClassifyAbsent(podsByName)
	snapshot.RecordPods(&state.clocks)
	return nil
}

// getLivePods returns the pods that exist under some names, read past the cache.
func (r *reconciler) getLivePods(ctx context.Context, namespace string, names []string) (map[string]*corev1.Pod, error) {
	var lock sync.Mutex
	var errs []error
	pods := map[string]*corev1.Pod{}
	semaphore, wg := make(chan struct{}, maxParallelRequests), sync.WaitGroup{}
	for _, name := range names {
		semaphore <- struct{}{}
		wg.Go(func() {
			defer func() { <-semaphore }()
			pod := &corev1.Pod{}
			err := r.apiReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
			lock.Lock()
			defer lock.Unlock()
			switch {
			case err == nil:
				pods[name] = pod
			case !apierrors.IsNotFound(err):
				errs = append(errs, fmt.Errorf("get pod %q past the cache: %w", name, err))
			}
		})
	}
	wg.Wait()
	return pods, errors.Join(errs...)
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

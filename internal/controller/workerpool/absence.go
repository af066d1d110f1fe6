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

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// verify reads the pods from the API server before the absence of a pod has any effect. A pod can leave its workload and keep running:
// its labels no longer match the selector, or its StatefulSet was deleted with --cascade=orphan. A worker's pod is therefore gone only if
// the API server has no pod of that name, whatever its labels, owner or phase.
func (r *reconciler) verify(ctx context.Context, w *world, memory *memory) error {
	pods, err := r.livePods(ctx, w.workload)
	if err != nil {
		return err
	}
	w.pods, w.verified = pods, true
	named, err := r.podsNamed(ctx, w.workload.object.GetNamespace(), w.absent())
	if err != nil {
		return err
	}
	w.resolve(named)
	w.testify(memory)
	return nil
}

// absent returns the workers that have no pod in the workload and whose absence would free jobs.
func (w world) absent() []string {
	var names []string
	present := w.byName()
	for _, record := range w.published.records(w.workload) {
		if present[record.Worker] == nil && w.freed(record) {
			names = append(names, record.Worker)
		}
	}
	return names
}

// resolve sorts the absent workers into those whose pod is gone, those whose pod left the workload, and those whose pod is new.
func (w *world) resolve(named map[string]*corev1.Pod) {
	w.gone, w.released = map[string]bool{}, map[string]*corev1.Pod{}
	for _, name := range w.absent() {
		switch pod := named[name]; {
		case pod == nil:
			w.gone[name] = true
		case w.workload.disowns(pod):
			w.released[name] = pod
		default:
			w.pods = append(w.pods, pod)
		}
	}
}

// holders returns the pods that may hold jobs, by name: those of the workload, and those that left it.
func (w world) holders() map[string]*corev1.Pod {
	all := w.byName()
	maps.Copy(all, w.released)
	return all
}

// podsNamed returns the pods that exist under some names, read past the cache.
func (r *reconciler) podsNamed(ctx context.Context, namespace string, names []string) (map[string]*corev1.Pod, error) {
	var lock sync.Mutex
	var problems []error
	found := map[string]*corev1.Pod{}
	slots, done := make(chan struct{}, abreast), sync.WaitGroup{}
	for _, name := range names {
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			pod := &corev1.Pod{}
			err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
			lock.Lock()
			defer lock.Unlock()
			switch {
			case err == nil:
				found[name] = pod
			case !apierrors.IsNotFound(err):
				problems = append(problems, fmt.Errorf("get pod %q past the cache: %w", name, err))
			}
		})
	}
	done.Wait()
	return found, errors.Join(problems...)
}

// explainReleased adds to the reasons for waiting that a worker's pod left the workload: the operator does not evict such pods.
func (d *draft) explainReleased(waiting []assign.PendingWorker) []assign.PendingWorker {
	of := d.pool.Spec.Workers
	for n, one := range waiting {
		if d.world.released[one.Worker] != nil {
			waiting[n].Reason += fmt.Sprintf("; its pod still exists, but %s %q does not control it: delete the pod if it does not respond", of.Kind, of.Name)
		}
	}
	return waiting
}

// watchReleased remembers the pods that left the workload of a pool: only their name leads back to the pool.
func (r *reconciler) watchReleased(pool types.NamespacedName, released map[string]*corev1.Pod) {
	r.lock.Lock()
	defer r.lock.Unlock()
	maps.DeleteFunc(r.released, func(_, of types.NamespacedName) bool { return of == pool })
	for name := range released {
		r.released[types.NamespacedName{Namespace: pool.Namespace, Name: name}] = pool
	}
}

// poolsOfPod finds the pools of a pod's workload, and the pool that waits for a pod that left it.
func (r *reconciler) poolsOfPod(ctx context.Context, pod client.Object) []types.NamespacedName {
	names := r.poolsOf(workloadOfPod)(ctx, pod)
	r.lock.Lock()
	defer r.lock.Unlock()
	if pool, found := r.released[client.ObjectKeyFromObject(pod)]; found {
		names = append(names, pool)
	}
	return names
}

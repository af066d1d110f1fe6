package workerpool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/acknowledge"
)

// world is the observed state of a pool.
type world struct {
	refused   *refusal // why nothing can be done
	workload  workload
	pods      []*corev1.Pod          // of the workload, unordered; from the cache, so they must not be modified
	verified  bool                   // the pods were read past the cache, after the published lists
	gone      map[string]bool        // workers without a pod of their name, as the API server reported then
	released  map[string]*corev1.Pod // workers' pods that exist but no longer belong to the workload, by name
	history   []kept                 // by number
	published published
	answers   map[string]acknowledge.Response // by worker
	tried     bool                            // every worker was asked at least once
}

// observe reads everything once from the cache. Where the absence of a pod matters, it also reads pods and the Leases of missing pods
// past it.
func (r *reconciler) observe(ctx context.Context, pool *v1alpha1.WorkerPool, memory *memory) (world, error) {
	found := world{tried: true}
	sources, err := r.sources(ctx, pool)
	if err != nil {
		return found, err
	}
	memory.jobs = memory.jobs.read(pool, sources)
	if found.history, err = r.history(ctx, pool, memory, false); err != nil {
		return found, err
	}
	if found.workload, found.refused, err = r.workload(ctx, pool); err != nil || found.refused != nil {
		return found, err
	}
	if found.published, found.refused, err = r.published(ctx, pool, memory); err != nil || found.refused != nil {
		return found, err
	}
	if r.unsecured(pool, memory) {
		if found.history, err = r.history(ctx, pool, memory, true); err != nil {
			return found, err
		}
	}
	if err := r.observePods(ctx, pool, &found, memory); err != nil {
		return found, err
	}
	found.answers, found.tried = r.asker.Poll(client.ObjectKeyFromObject(pool), found.questions(pool))
	return found, nil
}

// observePods reads the pods of the workers, and the Leases of those whose pod is gone.
func (r *reconciler) observePods(ctx context.Context, pool *v1alpha1.WorkerPool, found *world, memory *memory) error {
	var err error
	if found.pods, err = r.pods(ctx, found.workload); err != nil {
		return err
	}
	if found.dubious(pool, memory) {
		if err := r.verify(ctx, found, memory); err != nil {
			return err
		}
	}
	r.watchReleased(client.ObjectKeyFromObject(pool), found.released)
	return r.look(ctx, pool, found.bereft(memory), memory)
}

// sources returns the ConfigMaps that contain jobs.
func (r *reconciler) sources(ctx context.Context, pool *v1alpha1.WorkerPool) ([]source, error) {
	var all []source
	for _, from := range pool.Spec.JobsFrom {
		object := &corev1.ConfigMap{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: from.ConfigMapKeyRef.Name}, object, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			object = nil
		} else if err != nil {
			return nil, fmt.Errorf("read ConfigMap %q: %w", from.ConfigMapKeyRef.Name, err)
		}
		all = append(all, source{from.ConfigMapKeyRef, object})
	}
	return all, nil
}

// dubious reports whether the cache is not sufficient: a worker that may hold revoked jobs seems to be gone, or was not seen since its
// list was published although only its replacement can prove anything.
func (w world) dubious(pool *v1alpha1.WorkerPool, memory *memory) bool {
	present := w.byName()
	for _, record := range w.published.records(w.workload) {
		account := w.published.ledger[record.Worker]
		pod := present[record.Worker]
		if pod == nil && w.freed(record) {
			return true
		}
		version := record.Lists[len(record.Lists)-1].Version
		if pod != nil && pool.Spec.Refresh.Acknowledge == nil && account.PodUID != "" && memory.witness[record.Worker].version != version {
			return true
		}
	}
	return false
}

// testify records the pods that existed after the current lists were published.
func (w world) testify(memory *memory) {
	present := w.holders()
	for _, entry := range w.published.entries {
		pod := present[entry.Worker]
		if pod != nil && memory.witness[entry.Worker].version != entry.Version {
			memory.witness.take(entry.Worker, witness{entry.Version, string(pod.UID)})
		}
	}
}

// questions returns a question for each worker that has a list and can be asked.
func (w world) questions(pool *v1alpha1.WorkerPool) []acknowledge.Target {
	at := pool.Spec.Refresh.Acknowledge
	if at == nil {
		return nil
	}
	present := w.holders()
	var all []acknowledge.Target
	for _, entry := range w.published.entries {
		if pod := present[entry.Worker]; pod != nil && pod.Status.PodIP != "" {
			all = append(all, acknowledge.Target{
				Worker: entry.Worker, PodUID: string(pod.UID), Version: entry.Version, URL: endpoint(pod.Status.PodIP, at.HTTPGet),
			})
		}
	}
	return all
}

func (w world) byName() map[string]*corev1.Pod {
	present := make(map[string]*corev1.Pod, len(w.pods))
	for _, pod := range w.pods {
		present[pod.Name] = pod
	}
	return present
}

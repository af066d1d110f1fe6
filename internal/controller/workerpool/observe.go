package workerpool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// observe reads everything once from the cache. Where the absence of a pod matters, it also reads pods and the Leases of missing pods
// past it.
func (r *reconciler) observe(ctx context.Context, pool *v1alpha1.WorkerPool, state *localState) (poolSnapshot, error) {
	snapshot := poolSnapshot{allPolled: true}
	sources, err := r.readSources(ctx, pool)
	if err != nil {
		return snapshot, err
	}
	state.jobs = state.jobs.update(pool, sources)
	snapshot.jobs = state.jobs
	if snapshot.history, err = r.readHistory(ctx, pool, state, false); err != nil {
		return snapshot, err
	}
	if snapshot.workload, snapshot.problem, err = r.findWorkload(ctx, pool); err != nil || snapshot.problem != nil {
		return snapshot, err
	}
	if snapshot.published, snapshot.problem, err = r.readPublished(ctx, pool, state); err != nil || snapshot.problem != nil {
		return snapshot, err
	}
	if r.mayLackConfigMaps(pool, state) {
		if snapshot.history, err = r.readHistory(ctx, pool, state, true); err != nil {
			return snapshot, err
		}
	}
	if err := r.observePods(ctx, pool, &snapshot, state); err != nil {
		return snapshot, err
	}
	snapshot.ackResponses, snapshot.allPolled = r.poller.Poll(client.ObjectKeyFromObject(pool), snapshot.ackTargets(pool))
	return snapshot, nil
}

// observePods reads the pods of the workers, and the Leases of those whose pod is gone.
func (r *reconciler) observePods(ctx context.Context, pool *v1alpha1.WorkerPool, snapshot *poolSnapshot, state *localState) error {
	var err error
	if snapshot.pods, err = r.listPods(ctx, snapshot.workload); err != nil {
		return err
	}
	if snapshot.needsLiveRead(pool, &state.clocks) {
		if err := r.verifyAbsence(ctx, snapshot, state); err != nil {
			return err
		}
	}
	r.watchReleased(client.ObjectKeyFromObject(pool), snapshot.releasedPods)
	return r.readLeases(ctx, pool, snapshot.goneHolders(&state.clocks), state)
}

// readSources returns the ConfigMaps that contain jobs.
func (r *reconciler) readSources(ctx context.Context, pool *v1alpha1.WorkerPool) ([]jobSource, error) {
	var sources []jobSource
	for _, source := range pool.Spec.JobsFrom {
		object := &corev1.ConfigMap{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: source.ConfigMapKeyRef.Name}, object,
			client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			object = nil
		} else if err != nil {
			return nil, fmt.Errorf("read ConfigMap %q: %w", source.ConfigMapKeyRef.Name, err)
		}
		sources = append(sources, jobSource{source.ConfigMapKeyRef, object})
	}
	return sources, nil
}

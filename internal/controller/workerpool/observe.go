package workerpool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/ack"
)

// poolSnapshot is the observed state of a pool.
type poolSnapshot struct {
	problem      *problem // why nothing can be done
	workload     poolWorkload
	pods         []*corev1.Pod          // of the workload, unordered; from the cache, so they must not be modified
	podsVerified bool                   // the pods were read past the cache, after the published lists
	goneWorkers  map[string]bool        // workers without a pod of their name, as the API server reported then
	releasedPods map[string]*corev1.Pod // workers' pods that exist but no longer belong to the workload, by name
	history      []storedRevision       // by number
	published    publishedConfig
	ackResponses map[string]ack.Response // by worker
	allPolled    bool                    // every worker was asked at least once
}

// observe reads everything once from the cache. Where the absence of a pod matters, it also reads pods and the Leases of missing pods
// past it.
func (r *reconciler) observe(ctx context.Context, pool *v1alpha1.WorkerPool, state *localState) (poolSnapshot, error) {
	snapshot := poolSnapshot{allPolled: true}
	sources, err := r.readSources(ctx, pool)
	if err != nil {
		return snapshot, err
	}
	state.jobs = state.jobs.update(pool, sources)
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
	if snapshot.needsLiveRead(pool, state) {
		if err := r.verifyAbsence(ctx, snapshot, state); err != nil {
			return err
		}
	}
	r.watchReleased(client.ObjectKeyFromObject(pool), snapshot.releasedPods)
	return r.readLeases(ctx, pool, snapshot.goneHolders(state), state)
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

// needsLiveRead reports whether the cache is not sufficient: a worker that may hold revoked jobs seems to be gone, or was not seen since
// its list was published although only its replacement can prove anything.
func (s poolSnapshot) needsLiveRead(pool *v1alpha1.WorkerPool, state *localState) bool {
	podsByName := s.podsByName()
	for _, record := range s.published.records(s.workload) {
		entry := s.published.ledger[record.Worker]
		pod := podsByName[record.Worker]
		if pod == nil && s.absenceFreesJobs(record) {
			return true
		}
		version := record.Lists[len(record.Lists)-1].Version
		if pod != nil && pool.Spec.Refresh.Acknowledge == nil && entry.PodUID != "" && state.observedPods[record.Worker].listVersion != version {
			return true
		}
	}
	return false
}

// recordPods records the pods that existed after the current lists were published.
func (s poolSnapshot) recordPods(state *localState) {
	holderPods := s.holderPods()
	for _, entry := range s.published.entries {
		pod := holderPods[entry.Worker]
		if pod != nil && state.observedPods[entry.Worker].listVersion != entry.Version {
			state.observedPods.set(entry.Worker, podObservation{entry.Version, string(pod.UID)})
		}
	}
}

// ackTargets returns a question for each worker that has a list and can be asked.
func (s poolSnapshot) ackTargets(pool *v1alpha1.WorkerPool) []ack.Target {
	spec := pool.Spec.Refresh.Acknowledge
	if spec == nil {
		return nil
	}
	holderPods := s.holderPods()
	var targets []ack.Target
	for _, entry := range s.published.entries {
		if pod := holderPods[entry.Worker]; pod != nil && pod.Status.PodIP != "" {
			targets = append(targets, ack.Target{
				Worker: entry.Worker, PodUID: string(pod.UID), Version: entry.Version, URL: ackURL(pod.Status.PodIP, spec.HTTPGet),
			})
		}
	}
	return targets
}

func (s poolSnapshot) podsByName() map[string]*corev1.Pod {
	pods := make(map[string]*corev1.Pod, len(s.pods))
	for _, pod := range s.pods {
		pods[pod.Name] = pod
	}
	return pods
}

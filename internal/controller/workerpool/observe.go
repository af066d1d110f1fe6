package workerpool

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	poolstate "github.com/swarm-io/swarm-operator/internal/pool/state"
)

// observe reads everything once from the cache. Where the absence of a pod matters, it also reads pods and the Leases of missing pods
// past it.
func (r *reconciler) observe(ctx context.Context, pool *v1alpha1.WorkerPool, state *localState) (plan.Snapshot, error) {
	snapshot := plan.Snapshot{AllPolled: true}
	sources, err := poolstate.JobSources(ctx, r.client, pool)
	if err != nil {
		return snapshot, err
	}
	state.jobs = state.jobs.Update(pool, sources)
	snapshot.Jobs = state.jobs
	if snapshot.History, err = r.readHistory(ctx, pool, state, false); err != nil {
		return snapshot, err
	}
	if snapshot.Workload, snapshot.Problem, err = r.findWorkload(ctx, pool); err != nil || snapshot.Problem != nil {
		return snapshot, err
	}
	if snapshot.Published, snapshot.Problem, err = r.readPublished(ctx, pool, state); err != nil || snapshot.Problem != nil {
		return snapshot, err
	}
	if r.mayLackConfigMaps(pool, state) {
		if snapshot.History, err = r.readHistory(ctx, pool, state, true); err != nil {
			return snapshot, err
		}
	}
	if err := r.observePods(ctx, pool, &snapshot, state); err != nil {
		return snapshot, err
	}
	snapshot.AckResponses, snapshot.AllPolled = r.poller.Poll(client.ObjectKeyFromObject(pool), snapshot.AckTargets(pool))
	return snapshot, nil
}

// observePods reads the pods of the workers, and the Leases of those whose pod is gone.
func (r *reconciler) observePods(ctx context.Context, pool *v1alpha1.WorkerPool, snapshot *plan.Snapshot, state *localState) error {
	var err error
	if snapshot.Pods, err = r.listPods(ctx, snapshot.Workload); err != nil {
		return err
	}
	if snapshot.NeedsLiveRead(pool, &state.clocks) {
		if err := r.verifyAbsence(ctx, snapshot, state); err != nil {
			return err
		}
	}
	r.watchReleased(client.ObjectKeyFromObject(pool), snapshot.ReleasedPods)
	return r.readLeases(ctx, pool, snapshot.GoneHolders(&state.clocks), state)
}

// Package workerpool distributes the standing jobs of a WorkerPool over the pods of a workload, and delivers each its list.
//
// It promises:
//   - Under handoff Exclusive, no worker is granted a job while another may hold it: what workers may hold is stored in the same write as
//     the lists, and that write is refused if any other write came first.
//   - Only stored revisions are published: after a crash at any point, the next leader continues and reaches the same result.
//   - A pod is gone only if the API server, read past the cache, has no pod of its name, whatever its labels, owner or phase, and no pod
//     admitted before its jobs were revoked can still be stored.
//   - A missing pod still holds its jobs while its process has a Lease (worker/lease) that may not have expired.
//   - Workers whose list does not change see no write, no nudge and no restart.
//   - If jobs cannot be read, the workload is missing, or a ConfigMap belongs to another owner, the running assignment does not change.
//
// It never owns, edits or restarts a workload beyond what the pool configures: spec.replicas, and the refresh and failover policies.
package workerpool

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/cache/ondemand"
	"github.com/swarm-io/swarm-operator/internal/pool/ack"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// controllerName is the controller's name in logs, metrics and events.
const controllerName = "workerpool"

// Leadership counts terms.
type Leadership interface {
	Term() int64
}

// Options are the configuration of this controller, and its access to pods.
type Options struct {
	Pods    workload.PodLister
	Scope   *kit.Scope
	Resync  time.Duration
	Workers int
	// PerWorkerUnsupported is why workers cannot have ConfigMaps of their own; "" if they can.
	PerWorkerUnsupported string
}

type reconciler struct {
	client               client.Client
	workloadPods         workload.PodLister
	apiReader            client.Reader // past the cache
	perWorkerUnsupported string        // why Shared is the only layout
	status               *kit.Status[*v1alpha1.WorkerPool]
	leadership           Leadership
	poller               *ack.Poller
	revisionLock         revisionLock

	lock         sync.Mutex
	states       map[types.NamespacedName]*localState
	releasedPods map[types.NamespacedName]types.NamespacedName // pods that left their workload, with the pool that waits for them
}

// Add adds the WorkerPool controller to the operator. The cache must contain pods with their controller and Ready condition, and only
// ControllerRevisions with the label of a pool.
func Add(ctx context.Context, operator *kit.Operator, options Options) error {
	if err := addIndexes(ctx, operator); err != nil {
		return err
	}
	trigger, status := &kit.Trigger{}, kit.NewStatus[*v1alpha1.WorkerPool](operator, controllerName).Throttled(statusWriteInterval,
		clearProgress)
	r := &reconciler{
		client: operator.GetClient(), workloadPods: options.Pods, apiReader: operator.GetAPIReader(),
		perWorkerUnsupported: options.PerWorkerUnsupported, status: status,
		leadership: operator.Leadership, poller: ack.New(trigger), revisionLock: newRevisionLock(),
		states: map[types.NamespacedName]*localState{}, releasedPods: map[types.NamespacedName]types.NamespacedName{},
	}
	return kit.New[*v1alpha1.WorkerPool](operator, controllerName).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&corev1.Pod{}, r.poolsOfPod).
		Watches(&appsv1.StatefulSet{}, r.poolsOfWorkload(workloadOfObject(v1alpha1.WorkloadStatefulSet))).
		Watches(&appsv1.Deployment{}, r.poolsOfWorkload(workloadOfObject(v1alpha1.WorkloadDeployment))).
		Watches(ondemand.ConfigMaps(), r.poolsUsingConfigMap).
		Watches(&v1alpha1.WorkerPool{}, r.poolsOnWorkload).
		TriggeredBy(trigger).
		OnDeleted(kit.Forget(r.forget)).
		Namespaces(options.Scope).
		ResyncPeriod(options.Resync).
		Concurrency(options.Workers).
		Build(r)
}

// Reconcile advances a pool by one step.
func (r *reconciler) Reconcile(ctx context.Context, pool *v1alpha1.WorkerPool) (kit.Result, error) {
	state, now := r.stateFor(pool), time.Now()
	state.followsNewest = false
	defer r.releaseRevision(state)
	snapshot, err := r.observe(ctx, pool, state)
	if err != nil {
		return kit.Done(), err
	}
	if snapshot.Problem == nil {
		if err := r.ensureConfig(ctx, pool, &snapshot); err != nil {
			return kit.Done(), err
		}
	}
	next := plan.For(pool, snapshot, state.clocks, now)
	state.follow(next)
	if err := r.apply(ctx, pool, &next, state); err != nil {
		return kit.Done(), fmt.Errorf("pool %q: %w", pool.Name, err)
	}
	if next.IsIdle() && next.Jobs <= compactJobLimit {
		state.compact()
	}
	return r.report(ctx, pool, next, state)
}

// releaseRevision releases a revision that is not followed, and data read only for this reconcile.
func (r *reconciler) releaseRevision(state *localState) {
	if !state.followsNewest || state.holdsRevisionLock {
		state.newestRevision = nil
	}
	r.revisionLock.release(state)
}

func (r *reconciler) stateFor(pool *v1alpha1.WorkerPool) *localState {
	r.lock.Lock()
	defer r.lock.Unlock()
	key := client.ObjectKeyFromObject(pool)
	state := r.states[key]
	if state == nil || state.poolUID != pool.UID {
		state = newLocalState(pool.UID)
		r.states[key] = state
	}
	return state
}

func (r *reconciler) forget(pool types.NamespacedName) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.states, pool)
	maps.DeleteFunc(r.releasedPods, func(_, owner types.NamespacedName) bool { return owner == pool })
	r.poller.Forget(pool)
}

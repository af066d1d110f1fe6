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
	"github.com/swarm-io/swarm-operator/internal/acknowledge"
	"github.com/swarm-io/swarm-operator/internal/ondemand"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is the controller's name in logs, metrics and events.
const name = "workerpool"

// Leadership counts terms.
type Leadership interface {
	Term() int64
}

// Options are the configuration of this controller, and its access to pods.
type Options struct {
	Pods    survey.Pods
	Scope   *kit.Scope
	Resync  time.Duration
	Workers int
	// PerWorkerOff is why workers cannot have ConfigMaps of their own; "" if they can.
	PerWorkerOff string
}

type reconciler struct {
	client     client.Client
	replicas   survey.Pods
	live       client.Reader // past the cache
	shared     string        // why Shared is the only layout
	status     *kit.Status[*v1alpha1.WorkerPool]
	leadership Leadership
	asker      *acknowledge.Poller
	turns      turns

	lock     sync.Mutex
	memories map[types.NamespacedName]*memory
	released map[types.NamespacedName]types.NamespacedName // pods that left their workload, with the pool that waits for them
}

// Add adds the WorkerPool controller to the operator. The cache must contain pods with their controller and Ready condition, and only
// ControllerRevisions with the label of a pool.
func Add(ctx context.Context, operator *kit.Operator, options Options) error {
	if err := index(ctx, operator); err != nil {
		return err
	}
	signal, status := &kit.Trigger{}, kit.NewStatus[*v1alpha1.WorkerPool](operator, name).Throttled(shownEvery, progress)
	r := &reconciler{
		client: operator.GetClient(), replicas: options.Pods, live: operator.GetAPIReader(), shared: options.PerWorkerOff, status: status,
		leadership: operator.Leadership, asker: acknowledge.New(signal), turns: newTurns(),
		memories: map[types.NamespacedName]*memory{}, released: map[types.NamespacedName]types.NamespacedName{},
	}
	return kit.New[*v1alpha1.WorkerPool](operator, name).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&corev1.Pod{}, r.poolsOfPod).
		Watches(&appsv1.StatefulSet{}, r.poolsOf(workloadItself(v1alpha1.WorkloadStatefulSet))).
		Watches(&appsv1.Deployment{}, r.poolsOf(workloadItself(v1alpha1.WorkloadDeployment))).
		Watches(ondemand.ConfigMaps(), r.readers).
		Watches(&v1alpha1.WorkerPool{}, r.rivals).
		TriggeredBy(signal).
		OnDeleted(kit.Forget(r.forget)).
		Namespaces(options.Scope).
		ResyncPeriod(options.Resync).
		Concurrency(options.Workers).
		Build(r)
}

// Reconcile advances a pool by one step.
func (r *reconciler) Reconcile(ctx context.Context, pool *v1alpha1.WorkerPool) (kit.Result, error) {
	memory, now := r.remember(pool), time.Now()
	memory.follows = false
	defer r.letGo(memory)
	world, err := r.observe(ctx, pool, memory)
	if err != nil {
		return kit.Done(), err
	}
	if world.refused == nil {
		if err := r.secure(ctx, pool, &world); err != nil {
			return kit.Done(), err
		}
	}
	plan := plan(pool, world, memory, now)
	if err := r.apply(ctx, pool, &plan, memory); err != nil {
		return kit.Done(), fmt.Errorf("pool %q: %w", pool.Name, err)
	}
	if plan.still() && plan.Jobs <= short {
		memory.rest()
	}
	return r.report(ctx, pool, plan, memory)
}

// letGo releases a revision that is not followed, and data read only for this reconcile.
func (r *reconciler) letGo(memory *memory) {
	if !memory.follows || memory.turn {
		memory.kept = nil
	}
	r.turns.giveBack(memory)
}

func (r *reconciler) remember(pool *v1alpha1.WorkerPool) *memory {
	r.lock.Lock()
	defer r.lock.Unlock()
	key := client.ObjectKeyFromObject(pool)
	known := r.memories[key]
	if known == nil || known.of != pool.UID {
		known = newMemory(pool.UID)
		r.memories[key] = known
	}
	return known
}

func (r *reconciler) forget(pool types.NamespacedName) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.memories, pool)
	maps.DeleteFunc(r.released, func(_, of types.NamespacedName) bool { return of == pool })
	r.asker.Forget(pool)
}

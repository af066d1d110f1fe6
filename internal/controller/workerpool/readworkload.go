package workerpool

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	poolstate "github.com/swarm-io/swarm-operator/internal/pool/state"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// findWorkload finds the workload of a pool, unless another pool uses it.
func (r *reconciler) findWorkload(ctx context.Context, pool *v1alpha1.WorkerPool) (plan.Workload, *plan.Problem, error) {
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && r.perWorkerUnsupported != "" {
		return plan.Workload{}, plan.NewProblem(v1alpha1.ReasonNotSupported,
			"config.layout PerWorker is not supported by this operator: %s: delete this WorkerPool and create another with Shared",
			r.perWorkerUnsupported), nil
	}
	_, found, problem, err := poolstate.FindWorkload(ctx, r.client, pool,
		client.MatchingFields{workloadIndex: workloadKey(pool.Spec.Workers.Kind, pool.Spec.Workers.Name)})
	return found, problem, err
}

// listPods returns the pods of the workload from the cache.
func (r *reconciler) listPods(ctx context.Context, w plan.Workload) ([]*corev1.Pod, error) {
	name := types.NamespacedName{Namespace: w.Object.GetNamespace(), Name: w.Object.GetName()}
	pods, err := r.workloadPods(ctx, workload.Key{Kind: w.Kind, NamespacedName: name})
	if err != nil {
		return nil, fmt.Errorf("list pods of %q: %w", w.Object.GetName(), err)
	}
	return slices.DeleteFunc(pods, w.DoesNotOwn), nil
}

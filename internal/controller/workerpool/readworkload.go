package workerpool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// findWorkload finds the workload of a pool, unless another pool uses it.
func (r *reconciler) findWorkload(ctx context.Context, pool *v1alpha1.WorkerPool) (plan.Workload, *plan.Problem, error) {
	if pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && r.perWorkerUnsupported != "" {
		return plan.Workload{}, plan.NewProblem(v1alpha1.ReasonNotSupported,
			"config.layout PerWorker is not supported by this operator: %s: delete this WorkerPool and create another with Shared",
			r.perWorkerUnsupported), nil
	}
	ref := pool.Spec.Workers
	pools := &v1alpha1.WorkerPoolList{}
	if err := r.client.List(ctx, pools, client.InNamespace(pool.Namespace),
		client.MatchingFields{workloadIndex: workloadKey(ref.Kind, ref.Name)}); err != nil {
		return plan.Workload{}, nil, fmt.Errorf("list pools of %s %q: %w", ref.Kind, ref.Name, err)
	}
	if first := slices.MinFunc(append(pools.Items, *pool), comparePools); first.UID != pool.UID {
		return plan.Workload{}, plan.NewProblem(v1alpha1.ReasonWorkloadTaken, "%s %q has a pool already, %q: delete one of the two", ref.Kind, ref.Name,
			first.Name), nil
	}
	result, err := r.getWorkload(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: ref.Name}, ref.Kind)
	if apierrors.IsNotFound(err) {
		return result, plan.NewProblem(v1alpha1.ReasonWorkloadNotFound, "there is no %s %q in namespace %q: create it, or delete this pool", ref.Kind,
			ref.Name, pool.Namespace), nil
	}
	if err != nil {
		return result, nil, fmt.Errorf("read %s %q: %w", ref.Kind, ref.Name, err)
	}
	if workloads.TooLarge(result.Object) {
		return result, plan.NewProblem(v1alpha1.ReasonNotSupported,
			"%s %q: %s; its workers keep their jobs", ref.Kind, ref.Name, workloads.WorkloadTooLarge), nil
	}
	if swarm := owningSwarm(result.Object); swarm != "" && pool.Spec.Replicas != nil {
		return result, plan.NewProblem(v1alpha1.ReasonWorkloadTaken, "%s %q belongs to Swarm %q, which scales it: remove replicas from this pool",
			ref.Kind, ref.Name, swarm), nil
	}
	return result, nil, nil
}

// owningSwarm returns the Swarm that a workload belongs to, or "": the Swarm and the pool would undo each other's scaling.
func owningSwarm(workload client.Object) string {
	owner := metav1.GetControllerOfNoCopy(workload)
	if owner == nil || owner.Kind != "Swarm" || owner.APIVersion != v1alpha1.GroupVersion.String() {
		return ""
	}
	return owner.Name
}

// comparePools orders pools by creation; of two created in the same second, the one that has begun comes first.
func comparePools(a, b v1alpha1.WorkerPool) int {
	hasRevision := func(pool v1alpha1.WorkerPool) int64 { return min(pool.Status.Revision, 1) }
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(hasRevision(b), hasRevision(a)),
		strings.Compare(a.Name, b.Name),
	)
}

func (r *reconciler) getWorkload(ctx context.Context, key client.ObjectKey, kind v1alpha1.WorkloadKind) (plan.Workload, error) {
	if kind == v1alpha1.WorkloadDeployment {
		object := &appsv1.Deployment{}
		err := r.client.Get(ctx, key, object)
		return plan.Workload{Object: object, Kind: kind, Replicas: int(ptr.Deref(object.Spec.Replicas, 1)), Selector: object.Spec.Selector}, err
	}
	object := &appsv1.StatefulSet{}
	err := r.client.Get(ctx, key, object)
	result := plan.Workload{
		Object: object, Kind: v1alpha1.WorkloadStatefulSet, Replicas: int(ptr.Deref(object.Spec.Replicas, 1)), Selector: object.Spec.Selector,
		SpecObserved: object.Status.ObservedGeneration >= object.Generation,
	}
	if object.Spec.Ordinals != nil {
		result.FirstOrdinal = int(object.Spec.Ordinals.Start)
	}
	return result, err
}

// listPods returns the pods of the workload from the cache.
func (r *reconciler) listPods(ctx context.Context, w plan.Workload) ([]*corev1.Pod, error) {
	pods, err := r.workloadPods(ctx, workloads.Key{Kind: w.Kind, NamespacedName: client.ObjectKeyFromObject(w.Object)})
	if err != nil {
		return nil, fmt.Errorf("list pods of %q: %w", w.Object.GetName(), err)
	}
	return slices.DeleteFunc(pods, w.DoesNotOwn), nil
}

// listLivePods returns the pods of the workload from the API server.
func (r *reconciler) listLivePods(ctx context.Context, w plan.Workload) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(w.Selector)
	if err != nil {
		return nil, fmt.Errorf("read selector of %q: %w", w.Object.GetName(), err)
	}
	list := &corev1.PodList{}
	if err := r.apiReader.List(ctx, list, client.InNamespace(w.Object.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list pods of %q past the cache: %w", w.Object.GetName(), err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for n := range list.Items {
		pods[n] = &list.Items[n]
	}
	return slices.DeleteFunc(pods, w.DoesNotOwn), nil
}

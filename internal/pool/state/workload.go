package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// FindWorkload finds the workload of a pool, unless another pool uses it. The options select the pools that may use the same workload;
// without any, all pools of the namespace are read.
func FindWorkload(
	ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool, options ...client.ListOption,
) (client.Object, plan.Workload, *plan.Problem, error) {
	ref := pool.Spec.Workers
	pools := &v1alpha1.WorkerPoolList{}
	if err := reader.List(ctx, pools, append(options, client.InNamespace(pool.Namespace))...); err != nil {
		return nil, plan.Workload{}, nil, fmt.Errorf("list pools of %s %q: %w", ref.Kind, ref.Name, err)
	}
	others := slices.DeleteFunc(pools.Items, func(other v1alpha1.WorkerPool) bool { return other.Spec.Workers != ref })
	if first := slices.MinFunc(append(others, *pool), comparePools); first.UID != pool.UID {
		return nil, plan.Workload{}, plan.NewProblem(v1alpha1.ReasonWorkloadTaken, "%s %q has a pool already, %q: delete one of the two",
			ref.Kind, ref.Name, first.Name), nil
	}
	object, found, err := Workload(ctx, reader, pool)
	if apierrors.IsNotFound(err) {
		return object, found, plan.NewProblem(v1alpha1.ReasonWorkloadNotFound,
			"there is no %s %q in namespace %q: create it, or delete this pool", ref.Kind, ref.Name, pool.Namespace), nil
	}
	if err != nil {
		return object, found, nil, fmt.Errorf("read %s %q: %w", ref.Kind, ref.Name, err)
	}
	return object, found, workloadProblem(pool, object), nil
}

// workloadProblem returns why an existing workload cannot be used, or nil.
func workloadProblem(pool *v1alpha1.WorkerPool, object client.Object) *plan.Problem {
	ref := pool.Spec.Workers
	if workload.TooLarge(object) {
		return plan.NewProblem(v1alpha1.ReasonNotSupported, "%s %q: %s; its workers keep their jobs", ref.Kind, ref.Name,
			workload.WorkloadTooLarge)
	}
	if swarm := owningSwarm(object); swarm != "" && pool.Spec.Replicas != nil {
		return plan.NewProblem(v1alpha1.ReasonWorkloadTaken,
			"%s %q belongs to Swarm %q, which scales it: remove replicas from this pool", ref.Kind, ref.Name, swarm)
	}
	return nil
}

// owningSwarm returns the Swarm that a workload belongs to, or "": the Swarm and the pool would undo each other's scaling.
func owningSwarm(object client.Object) string {
	owner := metav1.GetControllerOfNoCopy(object)
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

// Workload returns the StatefulSet or Deployment of a pool.
func Workload(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool) (client.Object, plan.Workload, error) {
	key := client.ObjectKey{Namespace: pool.Namespace, Name: pool.Spec.Workers.Name}
	if pool.Spec.Workers.Kind == v1alpha1.WorkloadDeployment {
		object := &appsv1.Deployment{}
		err := reader.Get(ctx, key, object)
		return object, plan.DeploymentWorkload(object), err
	}
	object := &appsv1.StatefulSet{}
	err := reader.Get(ctx, key, object)
	return object, plan.StatefulSetWorkload(object), err
}

// Pods returns the pods of a workload, found by its selector.
func Pods(ctx context.Context, reader client.Reader, w plan.Workload) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(w.Selector)
	if err != nil {
		return nil, fmt.Errorf("read selector of %q: %w", w.Object.GetName(), err)
	}
	list := &corev1.PodList{}
	if err := reader.List(ctx, list, client.InNamespace(w.Object.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list pods of %q: %w", w.Object.GetName(), err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for n := range list.Items {
		pods[n] = &list.Items[n]
	}
	return slices.DeleteFunc(pods, w.DoesNotOwn), nil
}

// maxParallelReads limits how many pods are read at a time.
const maxParallelReads = 8

// PodsNamed returns the pods that exist under some names, whatever their labels and owners.
func PodsNamed(ctx context.Context, reader client.Reader, namespace string, names []string) (map[string]*corev1.Pod, error) {
	var lock sync.Mutex
	pods := map[string]*corev1.Pod{}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(maxParallelReads)
	for _, name := range names {
		reads.Go(func() error {
			pod := &corev1.Pod{}
			err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("get pod %q: %w", name, err)
			}
			lock.Lock()
			defer lock.Unlock()
			pods[name] = pod
			return nil
		})
	}
	err := reads.Wait()
	return pods, err
}

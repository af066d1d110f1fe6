package httpapi

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Pool is a WorkerPool in a list. Reason and message are those of its condition Ready.
type Pool struct {
	Namespace         string             `json:"namespace"`
	Name              string             `json:"name"`
	Workload          Workload           `json:"workload"`
	Phase             v1alpha1.PoolPhase `json:"phase"`
	Size              int32              `json:"size"`
	ExpectedSize      int32              `json:"expectedSize"`
	Jobs              int32              `json:"jobs"`
	Version           int64              `json:"version"`
	Revision          int64              `json:"revision"`
	ConvergedRevision int64              `json:"convergedRevision"`
	Converged         bool               `json:"converged"`
	Reason            string             `json:"reason"`
	Message           string             `json:"message"`
}

// Workload is the StatefulSet or Deployment whose pods are the workers.
type Workload struct {
	Kind v1alpha1.WorkloadKind `json:"kind"`
	Name string                `json:"name"`
}

// PoolDetail is all information about a pool.
type PoolDetail struct {
	Pool
	Workers    []Worker           `json:"workers"`
	Unassigned []string           `json:"unassigned"`
	Conditions []metav1.Condition `json:"conditions"`
	Problem    string             `json:"problem,omitempty"` // why lists of jobs are missing
}

func (a *api) pools(ctx context.Context, q query) (any, error) {
	list := &v1alpha1.WorkerPoolList{}
	if err := a.reader.List(ctx, list, client.InNamespace(q.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	return paginate(toPointers(list.Items), q.page, poolOf), nil
}

func (a *api) pool(ctx context.Context, q query) (any, error) {
	wp, err := a.findPool(ctx, q)
	if err != nil {
		return nil, err
	}
	entries, readErr := a.readPublished(ctx, wp)
	return PoolDetail{
		Pool: poolOf(wp), Workers: workersOf(wp, entries), Problem: oneLine(readErr),
		Unassigned: emptyIfNil(wp.Status.Unassigned), Conditions: emptyIfNil(wp.Status.Conditions),
	}, nil
}

func (a *api) findPool(ctx context.Context, q query) (*v1alpha1.WorkerPool, error) {
	wp := &v1alpha1.WorkerPool{}
	err := a.reader.Get(ctx, client.ObjectKey{Namespace: q.namespace, Name: q.name}, wp)
	switch {
	case apierrors.IsNotFound(err):
		return nil, problemf(http.StatusNotFound, "workerpools.%s %q not found in namespace %q", v1alpha1.GroupVersion.Group, q.name, q.namespace)
	case err != nil:
		return nil, fmt.Errorf("get pool %q: %w", q.name, err)
	}
	return wp, nil
}

func poolOf(wp *v1alpha1.WorkerPool) Pool {
	result := Pool{
		Namespace: wp.Namespace, Name: wp.Name, Workload: Workload{wp.Spec.Workers.Kind, wp.Spec.Workers.Name},
		Phase: wp.Status.Phase, Size: wp.Status.Size, ExpectedSize: wp.Status.ExpectedSize, Jobs: wp.Status.Jobs,
		Version: wp.Status.Version, Revision: wp.Status.Revision, ConvergedRevision: wp.Status.ConvergedRevision,
		Converged: meta.IsStatusConditionTrue(wp.Status.Conditions, v1alpha1.ConditionConverged),
	}
	if ready := meta.FindStatusCondition(wp.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		result.Reason, result.Message = ready.Reason, ready.Message
	}
	return result
}

// emptyIfNil encodes a nil list as [] instead of null.
func emptyIfNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

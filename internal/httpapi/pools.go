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

func (a *api) pools(ctx context.Context, asked question) (any, error) {
	found := &v1alpha1.WorkerPoolList{}
	if err := a.reader.List(ctx, found, client.InNamespace(asked.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	return listed(pointers(found.Items), asked.page, poolOf), nil
}

func (a *api) pool(ctx context.Context, asked question) (any, error) {
	found, err := a.findPool(ctx, asked)
	if err != nil {
		return nil, err
	}
	entries, unread := a.published(ctx, found)
	return PoolDetail{
		Pool: poolOf(found), Workers: workersOf(found, entries), Problem: oneLine(unread),
		Unassigned: orEmpty(found.Status.Unassigned), Conditions: orEmpty(found.Status.Conditions),
	}, nil
}

func (a *api) findPool(ctx context.Context, asked question) (*v1alpha1.WorkerPool, error) {
	found := &v1alpha1.WorkerPool{}
	err := a.reader.Get(ctx, client.ObjectKey{Namespace: asked.namespace, Name: asked.name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, refuse(http.StatusNotFound, "workerpools.%s %q not found in namespace %q", v1alpha1.GroupVersion.Group, asked.name, asked.namespace)
	case err != nil:
		return nil, fmt.Errorf("get pool %q: %w", asked.name, err)
	}
	return found, nil
}

func poolOf(from *v1alpha1.WorkerPool) Pool {
	to := Pool{
		Namespace: from.Namespace, Name: from.Name, Workload: Workload{from.Spec.Workers.Kind, from.Spec.Workers.Name},
		Phase: from.Status.Phase, Size: from.Status.Size, ExpectedSize: from.Status.ExpectedSize, Jobs: from.Status.Jobs,
		Version: from.Status.Version, Revision: from.Status.Revision, ConvergedRevision: from.Status.ConvergedRevision,
		Converged: meta.IsStatusConditionTrue(from.Status.Conditions, v1alpha1.ConditionConverged),
	}
	if ready := meta.FindStatusCondition(from.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		to.Reason, to.Message = ready.Reason, ready.Message
	}
	return to
}

// orEmpty encodes a nil list as [] instead of null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

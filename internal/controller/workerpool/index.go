package workerpool

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// workloadIndex indexes pools by workload.
	workloadIndex = "workerpool.workload"
	// configMapIndex indexes pools by the ConfigMaps that they read or write.
	configMapIndex = "workerpool.config"
)

func workloadKey(kind v1alpha1.WorkloadKind, name string) string { return string(kind) + "/" + name }

// addIndexes adds the indexes of pools.
func addIndexes(ctx context.Context, operator *kit.Operator) error {
	if err := kit.IndexOwner(ctx, operator, &appsv1.ControllerRevision{}); err != nil {
		return err
	}
	indexer := operator.GetFieldIndexer()
	for name, extract := range map[string]client.IndexerFunc{workloadIndex: workloadIndexKeys, configMapIndex: configMapIndexKeys} {
		if err := indexer.IndexField(ctx, &v1alpha1.WorkerPool{}, name, extract); err != nil {
			return fmt.Errorf("index WorkerPools: %w", err)
		}
	}
	return nil
}

func workloadIndexKeys(object client.Object) []string {
	pool := object.(*v1alpha1.WorkerPool)
	return []string{workloadKey(pool.Spec.Workers.Kind, pool.Spec.Workers.Name)}
}

func configMapIndexKeys(object client.Object) []string {
	pool := object.(*v1alpha1.WorkerPool)
	names := []string{pool.ConfigName()}
	for _, from := range pool.Spec.JobsFrom {
		names = append(names, from.ConfigMapKeyRef.Name)
	}
	return names
}

func workloadOfPod(pod client.Object) (v1alpha1.WorkloadKind, string) {
	key, _ := workloads.OwnerOf(pod)
	return key.Kind, key.Name
}

func workloadOfObject(kind v1alpha1.WorkloadKind) func(client.Object) (v1alpha1.WorkloadKind, string) {
	return func(object client.Object) (v1alpha1.WorkloadKind, string) { return kind, object.GetName() }
}

// poolsOfWorkload finds the pools of a workload.
func (r *reconciler) poolsOfWorkload(workload func(client.Object) (v1alpha1.WorkloadKind, string)) kit.Mapper {
	return func(ctx context.Context, object client.Object) []types.NamespacedName {
		kind, name := workload(object)
		if name == "" {
			return nil
		}
		return r.listPoolKeys(ctx, object.GetNamespace(), client.MatchingFields{workloadIndex: workloadKey(kind, name)})
	}
}

// poolsUsingConfigMap finds the pools that read or write a ConfigMap.
func (r *reconciler) poolsUsingConfigMap(ctx context.Context, configMap client.Object) []types.NamespacedName {
	pools := r.listPoolKeys(ctx, configMap.GetNamespace(), client.MatchingFields{configMapIndex: configMap.GetName()})
	if pool := configMap.GetLabels()[v1alpha1.LabelPool]; pool != "" {
		pools = append(pools, types.NamespacedName{Namespace: configMap.GetNamespace(), Name: pool})
	}
	return pools
}

// poolsOnWorkload finds the other pools of the same workload: when one is deleted, the next one takes over.
func (r *reconciler) poolsOnWorkload(ctx context.Context, pool client.Object) []types.NamespacedName {
	pools := r.listPoolKeys(ctx, pool.GetNamespace(), client.MatchingFields{workloadIndex: workloadIndexKeys(pool)[0]})
	return slices.DeleteFunc(pools, func(other types.NamespacedName) bool { return other.Name == pool.GetName() })
}

func (r *reconciler) listPoolKeys(ctx context.Context, namespace string, matching client.MatchingFields) []types.NamespacedName {
	pools := &v1alpha1.WorkerPoolList{}
	if err := r.client.List(ctx, pools, client.InNamespace(namespace), matching, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is not ready: every pool is still to be reconciled
	}
	names := make([]types.NamespacedName, 0, len(pools.Items))
	for n := range pools.Items {
		names = append(names, client.ObjectKeyFromObject(&pools.Items[n]))
	}
	return names
}

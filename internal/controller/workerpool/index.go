package workerpool

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// workloadIndex indexes pools by workload.
	workloadIndex = "workerpool.workload"
	// configIndex indexes pools by the ConfigMaps that they read or write.
	configIndex = "workerpool.config"
)

func workloadKey(kind v1alpha1.WorkloadKind, name string) string { return string(kind) + "/" + name }

// index adds the indexes of pools.
func index(ctx context.Context, operator *kit.Operator) error {
	if err := kit.IndexOwner(ctx, operator, &appsv1.ControllerRevision{}); err != nil {
		return err
	}
	fields := operator.GetFieldIndexer()
	for name, of := range map[string]client.IndexerFunc{workloadIndex: byWorkload, configIndex: byConfig} {
		if err := fields.IndexField(ctx, &v1alpha1.WorkerPool{}, name, of); err != nil {
			return fmt.Errorf("index WorkerPools: %w", err)
		}
	}
	return nil
}

func byWorkload(object client.Object) []string {
	pool := object.(*v1alpha1.WorkerPool)
	return []string{workloadKey(pool.Spec.Workers.Kind, pool.Spec.Workers.Name)}
}

func byConfig(object client.Object) []string {
	pool := object.(*v1alpha1.WorkerPool)
	names := []string{pool.ConfigName()}
	for _, from := range pool.Spec.JobsFrom {
		names = append(names, from.ConfigMapKeyRef.Name)
	}
	return names
}

func workloadOfPod(pod client.Object) (v1alpha1.WorkloadKind, string) {
	key, _ := survey.OwnerOf(pod)
	return key.Kind, key.Name
}

func workloadItself(kind v1alpha1.WorkloadKind) func(client.Object) (v1alpha1.WorkloadKind, string) {
	return func(object client.Object) (v1alpha1.WorkloadKind, string) { return kind, object.GetName() }
}

// poolsOf finds the pools of a workload.
func (r *reconciler) poolsOf(workload func(client.Object) (v1alpha1.WorkloadKind, string)) kit.Mapper {
	return func(ctx context.Context, object client.Object) []types.NamespacedName {
		kind, name := workload(object)
		if name == "" {
			return nil
		}
		return r.named(ctx, object.GetNamespace(), client.MatchingFields{workloadIndex: workloadKey(kind, name)})
	}
}

// readers finds the pools that read or write a ConfigMap.
func (r *reconciler) readers(ctx context.Context, config client.Object) []types.NamespacedName {
	names := r.named(ctx, config.GetNamespace(), client.MatchingFields{configIndex: config.GetName()})
	if pool := config.GetLabels()[v1alpha1.LabelPool]; pool != "" {
		names = append(names, types.NamespacedName{Namespace: config.GetNamespace(), Name: pool})
	}
	return names
}

// rivals finds the other pools of the same workload: when one is deleted, the next one takes over.
func (r *reconciler) rivals(ctx context.Context, pool client.Object) []types.NamespacedName {
	others := r.named(ctx, pool.GetNamespace(), client.MatchingFields{workloadIndex: byWorkload(pool)[0]})
	return slices.DeleteFunc(others, func(other types.NamespacedName) bool { return other.Name == pool.GetName() })
}

func (r *reconciler) named(ctx context.Context, namespace string, matching client.MatchingFields) []types.NamespacedName {
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

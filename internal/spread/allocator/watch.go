package allocator

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// WatchPods records every pod as it appears. Otherwise the allocator sees pods when it is next called, and a pod that is gone by then holds
// its number for a while.
func (a *Allocator) WatchPods(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if pod, isPod := object.(*corev1.Pod); isPod {
			a.observePod(pod)
		}
	}})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

// observePod reports a pod to the numbers of its ReplicaSet. The cache has it by now, so that the next read finds it there, or gone.
func (a *Allocator) observePod(pod *corev1.Pod) {
	if _, placed := pod.Annotations[a.settings.Key(v1alpha1.SpreadNumber)]; !placed {
		return
	}
	owner, owned := workload.OwnerOf(pod)
	if !owned {
		return
	}
	numbers := a.existingNumbers(replicaSetKey{owner, pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]})
	if numbers == nil {
		return
	}
	numbers.lock.Lock()
	defer numbers.lock.Unlock()
	numbers.AddPod(a.settings.Replica(workload.Workload{Key: owner}, pod))
}

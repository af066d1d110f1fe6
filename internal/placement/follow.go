package placement

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// Follow records every pod as it appears. Otherwise the desk sees pods when it is next called, and a pod that is gone by then holds
// its number for a while.
func (d *Desk) Follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if pod, isPod := object.(*corev1.Pod); isPod {
			d.appeared(pod)
		}
	}})
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	return nil
}

// appeared reports a pod to the numbers of its ReplicaSet. The cache has it by now, so that the next look finds it there, or gone.
func (d *Desk) appeared(pod *corev1.Pod) {
	if _, placed := pod.Annotations[d.settings.Key(v1alpha1.SpreadNumber)]; !placed {
		return
	}
	workload, owned := survey.OwnerOf(pod)
	if !owned {
		return
	}
	numbers := d.known(replicaSet{workload, pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]})
	if numbers == nil {
		return
	}
	numbers.lock.Lock()
	defer numbers.lock.Unlock()
	numbers.AddPod(d.settings.Replica(survey.Workload{Key: workload}, pod))
}

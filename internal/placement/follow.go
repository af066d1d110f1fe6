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

// Follow has the desk learn of every pod that appears. Without it, it learns of pods when it is next asked, and one that is gone by then
// leaves its number held for a while.
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

// appeared tells whoever gave a pod its number. The cache has it by now, so that whoever looks next will find it there, or gone.
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
	numbers.Appeared(d.settings.Replica(survey.Workload{Key: workload}, pod))
}

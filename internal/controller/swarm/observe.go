package swarm

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// world is what there is of a swarm. Objects of the right name that belong to somebody else are among them: applying to them
// fails, and says so.
type world struct {
	workloads []appsv1.StatefulSet
	agents    []v1alpha1.Agent
	others    []client.Object // the Service and the ConfigMap, as far as they exist
}

// observe reads everything once, from the cache.
func (r *reconciler) observe(ctx context.Context, swarm *v1alpha1.Swarm) (world, error) {
	var found world
	workloads, agents := &appsv1.StatefulSetList{}, &v1alpha1.AgentList{}
	if err := kit.OwnedBy(ctx, r.client, swarm, workloads); err != nil {
		return found, err
	}
	if err := kit.OwnedBy(ctx, r.client, swarm, agents); err != nil {
		return found, err
	}
	found.workloads, found.agents = workloads.Items, agents.Items
	for key, object := range map[string]client.Object{swarm.Name: &corev1.Service{}, swarm.Name + "-config": &corev1.ConfigMap{}} {
		err := r.client.Get(ctx, client.ObjectKey{Namespace: swarm.Namespace, Name: key}, object)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("read %T %q: %w", object, key, err)
		}
		found.others = append(found.others, object)
	}
	return found, nil
}

// objects is the whole world, to compare with.
func (w world) objects() []client.Object {
	all := append([]client.Object{}, w.others...)
	for n := range w.workloads {
		all = append(all, &w.workloads[n])
	}
	for n := range w.agents {
		all = append(all, &w.agents[n])
	}
	return all
}

// ready counts the pods of a type that are Ready.
func (w world) ready(workload string) int32 {
	for n := range w.workloads {
		if w.workloads[n].Name == workload {
			return w.workloads[n].Status.ReadyReplicas
		}
	}
	return 0
}

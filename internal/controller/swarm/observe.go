package swarm

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/manifest"
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
func (r *reconciler) observe(ctx context.Context, swarm manifest.Swarm) (world, error) {
	var found world
	workloads, agents := &appsv1.StatefulSetList{}, &v1alpha1.AgentList{}
	if err := kit.OwnedBy(ctx, r.client, swarm.Swarm, workloads); err != nil {
		return found, err
	}
	if err := kit.OwnedBy(ctx, r.client, swarm.Swarm, agents); err != nil {
		return found, err
	}
	found.workloads, found.agents = workloads.Items, agents.Items
	for _, object := range []client.Object{swarm.Service(), swarm.Config()} {
		err := r.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("read %s: %w", identity(object), err)
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

package agent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// world is what an Agent shows.
type world struct {
	swarm *v1alpha1.Swarm // nil when there is none
	pod   *corev1.Pod     // nil when there is none
	view  dispatch.AgentView
}

// observe reads everything once, from the cache and from dispatch.
func (r *reconciler) observe(ctx context.Context, agent *v1alpha1.Agent) (world, error) {
	found := world{view: r.board.Agent(client.ObjectKeyFromObject(agent))}
	swarm, pod := &v1alpha1.Swarm{}, &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: agent.Namespace, Name: agent.Spec.SwarmRef.Name}, swarm)
	if err == nil {
		found.swarm = swarm
	} else if !apierrors.IsNotFound(err) {
		return found, fmt.Errorf("read swarm %q: %w", agent.Spec.SwarmRef.Name, err)
	}
	err = r.client.Get(ctx, client.ObjectKeyFromObject(agent), pod)
	if err == nil {
		found.pod = pod
	} else if !apierrors.IsNotFound(err) {
		return found, fmt.Errorf("read pod %q: %w", agent.Name, err)
	}
	return found, nil
}

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// snapshot is the observed state of an Agent.
type snapshot struct {
	swarm *v1alpha1.Swarm // nil if it does not exist
	pod   *corev1.Pod     // nil if it does not exist
	view  dispatch.AgentView
}

// observe reads everything once, from the cache and from dispatch, to which the agent is added first.
func (r *reconciler) observe(ctx context.Context, agent *v1alpha1.Agent) (snapshot, error) {
	snapshot := snapshot{}
	swarm, pod := &v1alpha1.Swarm{}, &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: agent.Namespace, Name: agent.Spec.SwarmRef.Name}, swarm)
	if err == nil {
		snapshot.swarm = swarm
	} else if !apierrors.IsNotFound(err) {
		return snapshot, fmt.Errorf("read swarm %q: %w", agent.Spec.SwarmRef.Name, err)
	}
	err = r.client.Get(ctx, client.ObjectKeyFromObject(agent), pod)
	if err == nil {
		snapshot.pod = pod
	} else if !apierrors.IsNotFound(err) {
		return snapshot, fmt.Errorf("read pod %q: %w", agent.Name, err)
	}
	r.dispatcher.SetAgent(agent, requestedLease(agent, snapshot.swarm))
	snapshot.view = r.dispatcher.Agent(client.ObjectKeyFromObject(agent))
	return snapshot, nil
}

// endedProcesses returns the processes that may hold work and are known to have ended, so that their work can continue elsewhere. The cache
// is sufficient proof: a process that has ended does not return.
func (s snapshot) endedProcesses() []dispatch.Process {
	if s.pod == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.view.Holders), func(holder dispatch.Process) bool { return !dispatch.HasEnded(s.pod, holder) })
}

// requestedLease returns the lease that the type of an agent requests, 0 if it sets none.
func requestedLease(agent *v1alpha1.Agent, swarm *v1alpha1.Swarm) time.Duration {
	if swarm == nil {
		return 0
	}
	for n := range swarm.Spec.Agents {
		if kind := &swarm.Spec.Agents[n]; kind.Type == agent.Spec.Type {
			return time.Duration(kind.LeaseSeconds) * time.Second
		}
	}
	return 0
}

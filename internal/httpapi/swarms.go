package httpapi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Swarm is a Swarm in a list. Ready and reason are those of its condition Ready.
type Swarm struct {
	Namespace    string              `json:"namespace"`
	Name         string              `json:"name"`
	Phase        v1alpha1.SwarmPhase `json:"phase"`
	Replicas     int32               `json:"replicas"`
	ActiveAgents int32               `json:"activeAgents"`
	Tasks        v1alpha1.TaskCounts `json:"tasks"`
	Ready        bool                `json:"ready"`
	Reason       string              `json:"reason"`
}

func (a *api) swarms(ctx context.Context, asked question) (any, error) {
	found := &v1alpha1.SwarmList{}
	if err := a.reader.List(ctx, found, client.InNamespace(asked.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list swarms: %w", err)
	}
	return listed(pointers(found.Items), asked.page, swarmOf), nil
}

func swarmOf(from *v1alpha1.Swarm) Swarm {
	to := Swarm{
		Namespace: from.Namespace, Name: from.Name, Phase: from.Status.Phase, Replicas: from.Status.Replicas,
		ActiveAgents: from.Status.ActiveAgents, Tasks: ptr.Deref(from.Status.Tasks, v1alpha1.TaskCounts{}),
		Ready: meta.IsStatusConditionTrue(from.Status.Conditions, v1alpha1.ConditionReady),
	}
	if ready := meta.FindStatusCondition(from.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		to.Reason = ready.Reason
	}
	return to
}

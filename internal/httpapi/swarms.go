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

func (a *api) swarms(ctx context.Context, q query) (any, error) {
	list := &v1alpha1.SwarmList{}
	if err := a.reader.List(ctx, list, client.InNamespace(q.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list swarms: %w", err)
	}
	return paginate(toPointers(list.Items), q.page, swarmOf), nil
}

func swarmOf(s *v1alpha1.Swarm) Swarm {
	result := Swarm{
		Namespace: s.Namespace, Name: s.Name, Phase: s.Status.Phase, Replicas: s.Status.Replicas,
		ActiveAgents: s.Status.ActiveAgents, Tasks: ptr.Deref(s.Status.Tasks, v1alpha1.TaskCounts{}),
		Ready: meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady),
	}
	if ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		result.Reason = ready.Reason
	}
	return result
}

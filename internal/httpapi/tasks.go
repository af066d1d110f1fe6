package httpapi

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Task is a Task in a list, with the agents that hold an attempt of it now, without duplicates.
type Task struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Swarm     string                `json:"swarm"`
	Phase     v1alpha1.TaskPhase    `json:"phase"`
	Progress  int32                 `json:"progress"`
	Priority  v1alpha1.TaskPriority `json:"priority"`
	Attempt   int32                 `json:"attempt"`
	Reason    string                `json:"reason"`
	Agents    []string              `json:"agents"`
}

func (a *api) tasks(ctx context.Context, q query) (any, error) {
	list := &v1alpha1.TaskList{}
	if err := a.reader.List(ctx, list, client.InNamespace(q.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	tasks := slices.DeleteFunc(toPointers(list.Items), func(task *v1alpha1.Task) bool {
		return q.swarm != "" && task.Spec.SwarmRef.Name != q.swarm
	})
	return paginate(tasks, q.page, taskOf), nil
}

func taskOf(t *v1alpha1.Task) Task {
	agents := make([]string, 0, len(t.Status.AssignedAgents))
	for _, holder := range t.Status.AssignedAgents {
		agents = append(agents, holder.Name)
	}
	slices.Sort(agents)
	return Task{
		Namespace: t.Namespace, Name: t.Name, Swarm: t.Spec.SwarmRef.Name, Phase: t.Status.Phase,
		Progress: t.Status.Progress, Priority: t.Spec.Priority, Attempt: t.Status.Attempt,
		Reason: t.Status.Reason, Agents: slices.Compact(agents),
	}
}

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

func (a *api) tasks(ctx context.Context, asked question) (any, error) {
	found := &v1alpha1.TaskList{}
	if err := a.reader.List(ctx, found, client.InNamespace(asked.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	tasks := slices.DeleteFunc(pointers(found.Items), func(task *v1alpha1.Task) bool {
		return asked.swarm != "" && task.Spec.SwarmRef.Name != asked.swarm
	})
	return listed(tasks, asked.page, taskOf), nil
}

func taskOf(from *v1alpha1.Task) Task {
	agents := make([]string, 0, len(from.Status.AssignedAgents))
	for _, holder := range from.Status.AssignedAgents {
		agents = append(agents, holder.Name)
	}
	slices.Sort(agents)
	return Task{
		Namespace: from.Namespace, Name: from.Name, Swarm: from.Spec.SwarmRef.Name, Phase: from.Status.Phase,
		Progress: from.Status.Progress, Priority: from.Spec.Priority, Attempt: from.Status.Attempt,
		Reason: from.Status.Reason, Agents: slices.Compact(agents),
	}
}

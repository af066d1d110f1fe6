package swarm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// world is the observed state of a swarm. It includes the Service and the ConfigMap regardless of their controller: apply does not write
// to objects that the swarm does not control, and the condition Degraded names them.
type world struct {
	workloads []appsv1.StatefulSet
	agents    []v1alpha1.Agent
	others    []client.Object // the Service and the ConfigMap, if they exist
	busy      map[string]int  // attempts held by each agent
	unheard   bool            // agents have not reported yet what they hold
	tasks     v1alpha1.TaskCounts
	epoch     int64 // the highest one issued
	forged    bool  // the stored one was not issued
}

// observe reads everything once, from the cache.
func (r *reconciler) observe(ctx context.Context, swarm manifest.Swarm) (world, error) {
	var found world
	workloads, agents := &appsv1.StatefulSetList{}, &v1alpha1.AgentList{}
	if err := kit.ListOwned(ctx, r.client, swarm.Swarm, workloads); err != nil {
		return found, err
	}
	if err := kit.ListOwned(ctx, r.client, swarm.Swarm, agents); err != nil {
		return found, err
	}
	found.workloads, found.agents = workloads.Items, agents.Items
	slices.SortFunc(found.agents, func(a, b v1alpha1.Agent) int { return cmp.Compare(a.Name, b.Name) })
	key := client.ObjectKeyFromObject(swarm.Swarm)
	_, heard := r.board.CountAttempts(key, "") // asked first: once known, it remains so
	found.unheard, found.busy = !heard, map[string]int{}
	found.epoch, found.forged = r.board.EpochToStore(key, swarm.Status.Epoch)
	for n := range found.agents {
		found.busy[found.agents[n].Name], _ = r.board.CountAttempts(key, found.agents[n].Name)
	}
	tasks, err := tasksOf(ctx, r.client, swarm.Swarm)
	if err != nil {
		return found, err
	}
	found.tasks = countTasks(tasks)
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

// tasksOf returns the Tasks of the swarm from the cache: they must not be modified.
func tasksOf(ctx context.Context, cache client.Reader, swarm *v1alpha1.Swarm) ([]v1alpha1.Task, error) {
	list := &v1alpha1.TaskList{}
	err := cache.List(ctx, list, client.InNamespace(swarm.Namespace), client.MatchingFields{taskIndex: swarm.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return list.Items, nil
}

func countTasks(tasks []v1alpha1.Task) v1alpha1.TaskCounts {
	var counts v1alpha1.TaskCounts
	for n := range tasks {
		switch tasks[n].Status.Phase {
		case v1alpha1.TaskRunning:
			counts.Running++
		case v1alpha1.TaskCompleted:
			counts.Completed++
		case v1alpha1.TaskFailed, v1alpha1.TaskCancelled:
			counts.Failed++
		case v1alpha1.TaskPending, "":
			counts.Pending++
		}
	}
	return counts
}

// mayHold reports whether an agent may hold attempts.
func (w world) mayHold(agent string) bool { return w.unheard || w.busy[agent] > 0 }

// occupied reports whether an object belongs to agents that may still hold attempts.
func (w world) occupied(object client.Object) bool {
	switch object := object.(type) {
	case *v1alpha1.Agent:
		return w.mayHold(object.Name)
	case *appsv1.StatefulSet:
		if w.unheard {
			return true
		}
		for n := range w.agents {
			if w.mayHold(w.agents[n].Name) && w.agents[n].Labels[v1alpha1.LabelAgentType] == object.Labels[v1alpha1.LabelAgentType] {
				return true
			}
		}
	}
	return false
}

// objects returns all objects, for comparison.
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

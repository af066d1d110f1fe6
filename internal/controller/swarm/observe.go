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
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// snapshot is the observed state of a swarm. It includes the Service and the ConfigMap regardless of their controller: apply does not write
// to objects that the swarm does not control, and the condition Degraded names them.
type snapshot struct {
	workloads        []appsv1.StatefulSet
	agents           []v1alpha1.Agent
	serviceAndConfig []client.Object // the Service and the ConfigMap, if they exist
	attempts         map[string]int  // attempts held by each agent
	attemptsUnknown  bool            // agents have not reported yet what they hold
	taskCounts       v1alpha1.TaskCounts
	epoch            int64 // the highest one issued
	epochForged      bool  // the stored one was not issued
}

// observe reads everything once, from the cache.
func (r *reconciler) observe(ctx context.Context, swarm manifest.Swarm) (snapshot, error) {
	var snapshot snapshot
	workloads, agents := &appsv1.StatefulSetList{}, &v1alpha1.AgentList{}
	if err := kit.ListOwned(ctx, r.client, swarm.Swarm, workloads); err != nil {
		return snapshot, err
	}
	if err := kit.ListOwned(ctx, r.client, swarm.Swarm, agents); err != nil {
		return snapshot, err
	}
	snapshot.workloads, snapshot.agents = workloads.Items, agents.Items
	slices.SortFunc(snapshot.agents, func(a, b v1alpha1.Agent) int { return cmp.Compare(a.Name, b.Name) })
	key := client.ObjectKeyFromObject(swarm.Swarm)
	_, heard := r.dispatcher.CountAttempts(key, "") // asked first: once known, it remains so
	snapshot.attemptsUnknown, snapshot.attempts = !heard, map[string]int{}
	snapshot.epoch, snapshot.epochForged = r.dispatcher.EpochToStore(key, swarm.Status.Epoch)
	for n := range snapshot.agents {
		snapshot.attempts[snapshot.agents[n].Name], _ = r.dispatcher.CountAttempts(key, snapshot.agents[n].Name)
	}
	tasks, err := tasksOf(ctx, r.client, swarm.Swarm)
	if err != nil {
		return snapshot, err
	}
	snapshot.taskCounts = countTasks(tasks)
	for _, object := range []client.Object{swarm.Service(), swarm.Config()} {
		err := r.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return snapshot, fmt.Errorf("read %s: %w", identity(object), err)
		}
		snapshot.serviceAndConfig = append(snapshot.serviceAndConfig, object)
	}
	return snapshot, nil
}

// tasksOf returns the Tasks of the swarm from the cache: they must not be modified.
func tasksOf(ctx context.Context, cache client.Reader, swarm *v1alpha1.Swarm) ([]v1alpha1.Task, error) {
	list := &v1alpha1.TaskList{}
	err := cache.List(ctx, list, client.InNamespace(swarm.Namespace), client.MatchingFields{taskIndex: swarm.Name},
		client.UnsafeDisableDeepCopy)
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

// mayHoldAttempts reports whether an agent may hold attempts.
func (s snapshot) mayHoldAttempts(agent string) bool {
	return s.attemptsUnknown || s.attempts[agent] > 0
}

// mayBeInUse reports whether an object belongs to agents that may still hold attempts.
func (s snapshot) mayBeInUse(object client.Object) bool {
	switch object := object.(type) {
	case *v1alpha1.Agent:
		return s.mayHoldAttempts(object.Name)
	case *appsv1.StatefulSet:
		if s.attemptsUnknown {
			return true
		}
		for n := range s.agents {
			if s.mayHoldAttempts(s.agents[n].Name) && s.agents[n].Labels[v1alpha1.LabelAgentType] == object.Labels[v1alpha1.LabelAgentType] {
				return true
			}
		}
	}
	return false
}

// objects returns all objects, for comparison.
func (s snapshot) objects() []client.Object {
	all := append([]client.Object{}, s.serviceAndConfig...)
	for n := range s.workloads {
		all = append(all, &s.workloads[n])
	}
	for n := range s.agents {
		all = append(all, &s.agents[n])
	}
	return all
}

// readyPods counts the pods of a type that are Ready.
func (s snapshot) readyPods(workload string) int32 {
	for n := range s.workloads {
		if s.workloads[n].Name == workload {
			return s.workloads[n].Status.ReadyReplicas
		}
	}
	return 0
}

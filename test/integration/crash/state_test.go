package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/certs"
)

// A state is the content of a namespace, a line for each object, without what differs from run to run: times, UIDs, versions, epochs,
// attempts, which agent ran what, and the names of the run's own namespace and address.
type state struct {
	lines []string
	uids  map[string]types.UID // of what must not be replaced
}

// String returns the state for comparisons.
func (s state) String() string { return strings.Join(s.lines, "\n") }

// replacedObjects returns the names that both states have for different objects.
func (s state) replacedObjects(before state) []string {
	var names []string
	for name, uid := range before.uids {
		if now, there := s.uids[name]; there && now != uid {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// observe reads a state.
func (r *run) observe(ctx context.Context) (state, error) {
	result := state{uids: map[string]types.UID{}}
	for _, list := range []client.ObjectList{
		&v1alpha1.SwarmList{}, &v1alpha1.AgentList{}, &v1alpha1.TaskList{}, &v1alpha1.WorkerPoolList{}, &appsv1.StatefulSetList{},
		&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
	} {
		if err := api.List(ctx, list, client.InNamespace(r.namespace)); err != nil {
			return result, fmt.Errorf("list: %w", err)
		}
		for _, object := range itemsOf(list) {
			if name := object.GetName(); name == "kube-root-ca.crt" || name == certs.ConfigMapName {
				continue // neither belongs to an object of ours
			}
			name := strings.TrimPrefix(fmt.Sprintf("%T %s", object, object.GetName()), "*")
			result.uids[name] = object.GetUID()
			result.lines = append(result.lines, r.normal(name+": "+describe(object)))
		}
	}
	slices.Sort(result.lines)
	return result, nil
}

// normal replaces the run's own names in a text.
func (r *run) normal(text string) string {
	return strings.NewReplacer(r.namespace, "NAMESPACE", r.operator.address(), "LINK").Replace(text)
}

func itemsOf(list client.ObjectList) []client.Object {
	switch list := list.(type) {
	case *v1alpha1.SwarmList:
		return pointers(list.Items)
	case *v1alpha1.AgentList:
		return pointers(list.Items)
	case *v1alpha1.TaskList:
		return pointers(list.Items)
	case *v1alpha1.WorkerPoolList:
		return pointers(list.Items)
	case *appsv1.StatefulSetList:
		return pointers(list.Items)
	case *corev1.ServiceList:
		return pointers(list.Items)
	case *corev1.ConfigMapList:
		return pointers(list.Items)
	case *corev1.PodList:
		return pointers(list.Items)
	case *corev1.PersistentVolumeClaimList:
		return pointers(list.Items)
	}
	panic(fmt.Sprintf("what is a %T?", list))
}

func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []client.Object {
	all := make([]client.Object, 0, len(items))
	for n := range items {
		all = append(all, P(&items[n]))
	}
	return all
}

// describe returns the relevant content of an object.
func describe(object client.Object) string {
	parts := []any{"owners", owners(object), "finalizers", object.GetFinalizers(), "leaving", object.GetDeletionTimestamp() != nil}
	switch object := object.(type) {
	case *v1alpha1.Swarm:
		status := object.Status
		parts = append(parts, "current", status.ObservedGeneration == object.Generation, "phase", status.Phase, "replicas", status.Replicas,
			"active", status.ActiveAgents, "ready", status.ReadyAgents, "selector", status.Selector, "types", status.Types,
			"conditions", conditions(status.Conditions))
	case *v1alpha1.Agent:
		status := object.Status
		parts = append(parts, "spec", object.Spec, "phase", status.Phase, "pod", status.PodName, "peers", status.Peers, "conditions",
			conditions(status.Conditions))
	case *v1alpha1.Task:
		status := object.Status
		parts = append(parts, "phase", status.Phase, "reason", status.Reason, "progress", status.Progress, "result", status.Result,
			"retries", status.Retries, "reassignments", status.Reassignments, "agents", len(status.AssignedAgents), "active", status.ActiveAttempts,
			"conditions", conditions(status.Conditions))
	case *v1alpha1.WorkerPool:
		parts = append(parts, poolState(object)...)
	case *appsv1.StatefulSet:
		parts = append(parts, "labels", object.Labels, "spec", object.Spec, "pods", object.Status.Replicas, "ready", object.Status.ReadyReplicas)
	case *corev1.Service:
		parts = append(parts, "labels", object.Labels, "selector", object.Spec.Selector, "address", object.Spec.ClusterIP)
	case *corev1.ConfigMap:
		parts = append(parts, "labels", object.Labels, "swarm", object.Data["swarm.json"], "ca",
			strings.HasPrefix(object.Data["ca.crt"], "-----BEGIN"), "lists", jobsByWorker(object))
	case *corev1.Pod:
		parts = append(parts, "phase", object.Status.Phase)
	}
	return text(parts)
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

func owners(object client.Object) []string {
	var names []string
	for _, owner := range object.GetOwnerReferences() {
		names = append(names, owner.Kind+" "+owner.Name)
	}
	return names
}

func conditions(all []metav1.Condition) []string {
	var short []string
	for _, condition := range all {
		short = append(short, fmt.Sprintf("%s=%s (%s)", condition.Type, condition.Status, condition.Reason))
	}
	slices.Sort(short)
	return short
}

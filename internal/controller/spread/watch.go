package spread

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// workloadChanged passes changes of workloads that are or were enabled, or that carry our annotations. Others are never queued.
func (r *reconciler[T]) workloadChanged() predicate.Predicate {
	changes := kit.Changes()
	return predicate.And(
		predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return r.isRelevant(e.Object) },
			DeleteFunc: func(e event.DeleteEvent) bool { return r.isRelevant(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return r.isRelevant(e.ObjectOld) || r.isRelevant(e.ObjectNew) },
		},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changes.Update(e) || r.rolloutChanged(e) }},
	)
}

func (c *controller) isRelevant(workload client.Object) bool {
	return c.settings.Enabled(workload) || slices.ContainsFunc(ownAnnotations, func(ours v1alpha1.SpreadAnnotation) bool {
		_, found := workload.GetAnnotations()[c.settings.Key(ours)]
		return found
	})
}

// rolloutChanged reports whether a rollout has begun or ended.
func (r *reconciler[T]) rolloutChanged(update event.UpdateEvent) bool {
	before, is := update.ObjectOld.(T)
	after, too := update.ObjectNew.(T)
	return is && too && r.toWorkload(before).Rollout != r.toWorkload(after).Rollout
}

// podChanged passes changes that affect how a pod is counted.
func podChanged() predicate.Predicate {
	return onUpdate(func(before, after *corev1.Pod) bool {
		return before.Spec.NodeName != after.Spec.NodeName || before.Status.Phase != after.Status.Phase || isReady(before) != isReady(after) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			len(before.Spec.SchedulingGates) != len(after.Spec.SchedulingGates)
	})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// budgetChanged passes changes that affect which pods may be removed.
func budgetChanged() predicate.Predicate {
	return onUpdate(func(before, after *policyv1.PodDisruptionBudget) bool {
		return before.Status.DisruptionsAllowed != after.Status.DisruptionsAllowed || before.Generation != after.Generation
	})
}

// windowsChanged passes changes of the windows of a namespace.
func windowsChanged(settings snapshot.Settings) predicate.Predicate {
	key := settings.Key(v1alpha1.SpreadWindows)
	return predicate.And(
		predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }},
		onUpdate(func(before, after *corev1.Namespace) bool { return before.Annotations[key] != after.Annotations[key] }),
	)
}

// nodeChanged passes changes that affect the evaluation of a node. Heartbeats do not.
func (n *nodeTracker) nodeChanged() predicate.Predicate {
	return onUpdate(func(before, after *corev1.Node) bool {
		return !equality.Semantic.DeepEqual(n.settings.Node(before), n.settings.Node(after))
	})
}

// onUpdate passes updates for which matters is true, and all other events.
func onUpdate[T client.Object](isRelevant func(before, after T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, is := update.ObjectOld.(T)
		after, too := update.ObjectNew.(T)
		return !is || !too || isRelevant(before, after)
	}}
}

// workloadOfPod returns the managed workload of a pod.
func (r *reconciler[T]) workloadOfPod(_ context.Context, pod client.Object) []types.NamespacedName {
	key, found := workloads.OwnerOf(pod)
	if !found || key.Kind != r.kind || !r.states.has(key) {
		return nil
	}
	return []types.NamespacedName{key.NamespacedName}
}

// workloadsNear returns the managed workloads in an object's namespace.
func (r *reconciler[T]) workloadsNear(_ context.Context, object client.Object) []types.NamespacedName {
	return r.managedIn(object.GetNamespace())
}

// workloadsIn returns the managed workloads of a namespace.
func (r *reconciler[T]) workloadsIn(_ context.Context, namespace client.Object) []types.NamespacedName {
	return r.managedIn(namespace.GetName())
}

func (r *reconciler[T]) managedIn(namespace string) []types.NamespacedName {
	var names []types.NamespacedName
	for _, workload := range r.states.managedKeys(namespace) {
		if workload.Kind == r.kind {
			names = append(names, workload.NamespacedName)
		}
	}
	return names
}

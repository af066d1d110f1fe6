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
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// news passes changes of workloads that are or were enabled, or that carry our annotations. Others are never queued.
func (r *reconciler[T]) news() predicate.Predicate {
	changes := kit.Changes()
	return predicate.And(
		predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return r.concerns(e.Object) },
			DeleteFunc: func(e event.DeleteEvent) bool { return r.concerns(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return r.concerns(e.ObjectOld) || r.concerns(e.ObjectNew) },
		},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changes.Update(e) || r.turned(e) }},
	)
}

func (k *keeper) concerns(workload client.Object) bool {
	return k.settings.Enabled(workload) || slices.ContainsFunc(written, func(ours v1alpha1.SpreadAnnotation) bool {
		_, found := workload.GetAnnotations()[k.settings.Key(ours)]
		return found
	})
}

// turned reports whether a rollout has begun or ended.
func (r *reconciler[T]) turned(update event.UpdateEvent) bool {
	before, is := update.ObjectOld.(T)
	after, too := update.ObjectNew.(T)
	return is && too && r.of(before).Rollout != r.of(after).Rollout
}

// podNews passes changes that affect how a pod is counted.
func podNews() predicate.Predicate {
	return updates(func(before, after *corev1.Pod) bool {
		return before.Spec.NodeName != after.Spec.NodeName || before.Status.Phase != after.Status.Phase || isReady(before) != isReady(after) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || len(before.Spec.SchedulingGates) != len(after.Spec.SchedulingGates)
	})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// budgetNews passes changes that affect which pods may be removed.
func budgetNews() predicate.Predicate {
	return updates(func(before, after *policyv1.PodDisruptionBudget) bool {
		return before.Status.DisruptionsAllowed != after.Status.DisruptionsAllowed || before.Generation != after.Generation
	})
}

// windowNews passes changes of the windows of a namespace.
func windowNews(settings survey.Settings) predicate.Predicate {
	key := settings.Key(v1alpha1.SpreadWindows)
	return predicate.And(
		predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }},
		updates(func(before, after *corev1.Namespace) bool { return before.Annotations[key] != after.Annotations[key] }),
	)
}

// news passes changes that affect the evaluation of a node. Heartbeats do not.
func (n *nodes) news() predicate.Predicate {
	return updates(func(before, after *corev1.Node) bool {
		return !equality.Semantic.DeepEqual(n.settings.Node(before), n.settings.Node(after))
	})
}

// updates passes updates for which matters is true, and all other events.
func updates[T client.Object](matters func(before, after T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, is := update.ObjectOld.(T)
		after, too := update.ObjectNew.(T)
		return !is || !too || matters(before, after)
	}}
}

// workload returns the managed workload of a pod.
func (r *reconciler[T]) workload(_ context.Context, pod client.Object) []types.NamespacedName {
	key, found := survey.OwnerOf(pod)
	if !found || key.Kind != r.kind || !r.memories.knows(key) {
		return nil
	}
	return []types.NamespacedName{key.NamespacedName}
}

// neighbours returns the managed workloads in an object's namespace.
func (r *reconciler[T]) neighbours(_ context.Context, object client.Object) []types.NamespacedName {
	return r.within(object.GetNamespace())
}

// inhabitants returns the managed workloads of a namespace.
func (r *reconciler[T]) inhabitants(_ context.Context, namespace client.Object) []types.NamespacedName {
	return r.within(namespace.GetName())
}

func (r *reconciler[T]) within(namespace string) []types.NamespacedName {
	var names []types.NamespacedName
	for _, workload := range r.memories.managed(namespace) {
		if workload.Kind == r.kind {
			names = append(names, workload.NamespacedName)
		}
	}
	return names
}

// Package workload treats Deployments and StatefulSets alike: their desired state, whether they are rolling out, and which pods belong to
// them.
package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Key names a workload.
type Key struct {
	Kind v1alpha1.WorkloadKind
	types.NamespacedName
}

func (k Key) String() string { return fmt.Sprintf("%s %s", k.Kind, k.NamespacedName) }

// Workload is a Deployment or a StatefulSet.
type Workload struct {
	metav1.Object

	Key          Key
	Replicas     int
	FirstOrdinal int            // the ordinal of replica number 0
	Rollout      string         // why the workload itself is replacing pods, "" when it is not
	PodSpec      corev1.PodSpec // its template's; only what selects nodes must be set
}

// Deployment returns a Deployment as a workload.
func Deployment(deployment *appsv1.Deployment) Workload {
	return Workload{
		Object: deployment, Key: Key{v1alpha1.WorkloadDeployment, types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Name}},
		Replicas: replicaCount(deployment.Spec.Replicas), Rollout: deploymentRollout(deployment), PodSpec: deployment.Spec.Template.Spec,
	}
}

// StatefulSet returns a StatefulSet as a workload.
func StatefulSet(set *appsv1.StatefulSet) Workload {
	workload := Workload{
		Object: set, Key: Key{v1alpha1.WorkloadStatefulSet, types.NamespacedName{Namespace: set.Namespace, Name: set.Name}},
		Replicas: replicaCount(set.Spec.Replicas), Rollout: statefulSetRollout(set), PodSpec: set.Spec.Template.Spec,
	}
	if set.Spec.Ordinals != nil {
		workload.FirstOrdinal = int(set.Spec.Ordinals.Start)
	}
	return workload
}

func replicaCount(specified *int32) int {
	if specified == nil {
		return 1
	}
	return int(*specified)
}

func deploymentRollout(d *appsv1.Deployment) string {
	switch {
	case d.Status.ObservedGeneration < d.Generation:
		return "its controller has not seen the last change"
	case d.Status.UpdatedReplicas < d.Status.Replicas:
		return "a rollout is in progress"
	}
	return ""
}

// statefulSetRollout compares revisions: with a partition or OnDelete, two may coexist indefinitely.
func statefulSetRollout(s *appsv1.StatefulSet) string {
	update := s.Spec.UpdateStrategy
	paused := update.Type == appsv1.OnDeleteStatefulSetStrategyType ||
		update.RollingUpdate != nil && update.RollingUpdate.Partition != nil && *update.RollingUpdate.Partition > 0
	switch {
	case s.Status.ObservedGeneration < s.Generation:
		return "its controller has not seen the last change"
	case !paused && s.Status.CurrentRevision != s.Status.UpdateRevision:
		return "a rollout is in progress"
	}
	return ""
}

// OwnerOf returns the workload that a pod belongs to, and whether there is one. A Deployment's pods belong to a ReplicaSet, whose name
// is that of the Deployment plus the template hash.
func OwnerOf(pod metav1.Object) (Key, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return Key{}, false
	}
	key := Key{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace()}}
	switch hash := pod.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]; {
	case owner.Kind == "StatefulSet":
		key.Kind, key.Name = v1alpha1.WorkloadStatefulSet, owner.Name
	case owner.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(owner.Name, "-"+hash):
		key.Kind, key.Name = v1alpha1.WorkloadDeployment, strings.TrimSuffix(owner.Name, "-"+hash)
	}
	return key, key.Name != ""
}

// WorkloadTooLarge is the problem of a workload that is TooLarge.
const WorkloadTooLarge = "its selector, and the node selector, affinity, tolerations and ports of its template, exceed 16 KiB together, " +
	"or 4 KiB in a namespace beyond limits.cacheBytesPerNamespace: reduce them"

// TooLarge reports whether the operator's cache holds too little of an object to decide about it.
func TooLarge(object metav1.Object) bool {
	return object.GetAnnotations()[v1alpha1.AnnotationTooLarge] != ""
}

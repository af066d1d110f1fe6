package operator

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
)

const (
	maxOutlineBytes      = 16 << 10 // of an object that users of a namespace may create, encoded
	maxValueBytes        = 512      // of an annotation, if all of an object take more than half of that
	maxTrimmedValueBytes = 128      // likewise of an object of which no more than trimmedOutlineBytes is kept
	maxOwnerBytes        = 1 << 10  // of a reference to an owner: no object has longer names
)

// boundOutline drops what an outline has beyond maxOutlineBytes.
func boundOutline(object client.Object, labels []string, refusals *limit.Refusals) {
	sized, ok := object.(interface{ Size() int })
	if ok && sized.Size() > maxOutlineBytes && !isComparedFully(object) && bound(object, labels, maxOutlineBytes) {
		refusals.Count(limit.ObjectBytes)
	}
}

// bound reduces an object to a size, and reports whether it knows the kind. What identifies the object stays: its name, its
// controller, and the labels that we read. If something is dropped that a decision needs, the object is marked, and left alone.
func bound(object client.Object, labels []string, maxBytes int) bool {
	switch object := object.(type) {
	case *corev1.Pod:
		boundPod(object, labels)
	case *appsv1.Deployment:
		boundDeployment(object, labels, maxBytes)
	case *appsv1.StatefulSet:
		boundStatefulSet(object, labels, maxBytes)
	case *policyv1.PodDisruptionBudget:
		boundBudget(object, labels, maxBytes)
	case *corev1.PersistentVolumeClaim:
		boundMetadata(&object.ObjectMeta, labels)
		object.Spec, object.Status = corev1.PersistentVolumeClaimSpec{VolumeName: shorten(object.Spec.VolumeName)},
			corev1.PersistentVolumeClaimStatus{}
	case *metav1.PartialObjectMetadata:
		boundMetadata(&object.ObjectMeta, labels)
	case *appsv1.ControllerRevision:
		boundMetadata(&object.ObjectMeta, labels)
	default:
		return false // nodes, volumes, namespaces: users of a namespace do not create them
	}
	return true
}

// isComparedFully reports whether the operator compares all of an object with what it wants: StatefulSets of a Swarm, which it deletes
// if the Swarm does not want them, and the lists of a pool.
func isComparedFully(object client.Object) bool {
	switch object.(type) {
	case *appsv1.StatefulSet:
		return controlledBy(object, "Swarm")
	case *appsv1.ControllerRevision:
		return controlledBy(object, "WorkerPool")
	}
	return false
}

// boundMetadata keeps what identifies an object.
func boundMetadata(object *metav1.ObjectMeta, labels []string) {
	object.Labels = pick(object.Labels, labels...)
	object.Finalizers, object.GenerateName = nil, ""
	object.OwnerReferences = slices.Clone(controllerOf(object.OwnerReferences))
	if len(object.OwnerReferences) > 0 && object.OwnerReferences[0].Size() > maxOwnerBytes {
		object.OwnerReferences = nil
	}
}

// boundPod keeps only whether a pod is Ready, and that it has a gate. Budgets select pods by labels, and volumes may bind them to
// their nodes: the mark says that both are unknown.
func boundPod(pod *corev1.Pod, labels []string) {
	boundMetadata(&pod.ObjectMeta, labels)
	pod.Spec.SchedulingGates = slices.Clone(pod.Spec.SchedulingGates[:min(1, len(pod.Spec.SchedulingGates))])
	pod.Spec.Volumes = nil
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodPhase(shorten(string(pod.Status.Phase))), PodIP: pod.Status.PodIP, Conditions: podReadyCondition(pod.Status.Conditions),
		Reason: shorten(pod.Status.Reason), Message: shorten(pod.Status.Message),
	}
	markTooLarge(pod)
}

// boundDeployment sets no mark if only labels are dropped: only ours are read.
func boundDeployment(object *appsv1.Deployment, labels []string, maxBytes int) {
	boundMetadata(&object.ObjectMeta, labels)
	if object.Status.Conditions = nil; object.Size() > maxBytes {
		object.Spec = appsv1.DeploymentSpec{Replicas: object.Spec.Replicas}
		markTooLarge(object)
	}
}

// boundStatefulSet does the same for a StatefulSet.
func boundStatefulSet(object *appsv1.StatefulSet, labels []string, maxBytes int) {
	boundMetadata(&object.ObjectMeta, labels)
	status := &object.Status
	status.CurrentRevision, status.UpdateRevision = shorten(status.CurrentRevision), shorten(status.UpdateRevision)
	if status.Conditions = nil; object.Size() > maxBytes {
		spec := object.Spec
		object.Spec = appsv1.StatefulSetSpec{Replicas: spec.Replicas, Ordinals: spec.Ordinals, UpdateStrategy: spec.UpdateStrategy}
		markTooLarge(object)
	}
}

// boundBudget treats a budget with a selector that is too large as one of all pods: better that too many wait for it than too few.
func boundBudget(object *policyv1.PodDisruptionBudget, labels []string, maxBytes int) {
	boundMetadata(&object.ObjectMeta, labels)
	object.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: object.Status.DisruptionsAllowed}
	if object.Size() > maxBytes {
		object.Spec.Selector = &metav1.LabelSelector{}
	}
}

// markTooLarge records, in the cache only, that too little of an object is known to decide about it.
func markTooLarge(object client.Object) {
	annotations := map[string]string{}
	maps.Copy(annotations, object.GetAnnotations())
	annotations[v1alpha1.AnnotationTooLarge] = "true" // also over an empty value that a user has set
	object.SetAnnotations(annotations)
}

// shortenValues shortens annotations that are too large together. A shortened value no longer parses as a number, a time or a setting.
func shortenValues(annotations map[string]string, maxTotal, maxValue int) {
	total := 0
	for _, value := range annotations {
		total += len(value)
	}
	if total <= maxTotal {
		return
	}
	for key, value := range annotations {
		annotations[key] = shortenTo(value, maxValue)
	}
}

func shorten(text string) string { return shortenTo(text, maxValueBytes) }

// shortenTo copies the text: a substring of a long one would keep all of it in memory.
func shortenTo(text string, maxBytes int) string {
	const ellipsis = "..."
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxBytes-len(ellipsis)]), "") + ellipsis
}

// controlledBy reports whether an object's controller is one of our kind.
func controlledBy(object client.Object, kind string) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != kind {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1alpha1.GroupVersion.Group
}

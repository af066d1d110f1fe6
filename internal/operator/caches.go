package operator

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/cache/ondemand"
	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/swarm/payload"
)

// cacheOptions leaves out what is not read.
func cacheOptions(namespace string, settings snapshot.Settings, refusals *limit.Refusals, quota *cacheQuota) cache.Options {
	outline := newOutlineTransform(settings, refusals, quota)
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:      certs.Cached(namespace),
			&corev1.Pod{}:         {Transform: outline},
			&appsv1.Deployment{}:  {Transform: outline},
			&appsv1.StatefulSet{}: {Transform: outline},
			&corev1.Node{}:        {Transform: outline},
			&corev1.Namespace{}:   {Transform: outline},

			&corev1.PersistentVolumeClaim{}: {Transform: outline},
			&corev1.PersistentVolume{}:      {Transform: outline},
			&policyv1.PodDisruptionBudget{}: {Transform: outline},

			ondemand.ConfigMaps(): {Transform: outline},
			ondemand.Services():   {Transform: outline},

			&v1alpha1.Swarm{}:            {Transform: outline},
			&v1alpha1.Agent{}:            {Transform: outline},
			&v1alpha1.Task{}:             {Transform: outline},
			&v1alpha1.WorkerPool{}:       {Transform: outline},
			&v1alpha1.SwarmSnapshot{}:    {Transform: outline},
			&appsv1.ControllerRevision{}: {Label: hasLabel(v1alpha1.LabelPool), Transform: outline}, // others hold whole templates

			&admissionv1.MutatingWebhookConfiguration{}: webhookconfig.Cached(),
		},
	}
}

// newOutlineTransform keeps what identifies pods, workloads, nodes and volumes, and their state. Workers are found by their workload, which
// no label names, so the cache holds all pods and workloads: they must be small. What a Swarm controls is compared with its desired state,
// and reported in detail.
func newOutlineTransform(settings snapshot.Settings, refusals *limit.Refusals, quota *cacheQuota) toolscache.TransformFunc {
	podAnnotations := []string{
		v1alpha1.AnnotationConfigVersion, v1alpha1.AnnotationNudge, corev1.PodDeletionCost, settings.Key(v1alpha1.SpreadNumber),
		settings.Key(v1alpha1.SpreadClass), v1alpha1.AnnotationTooLarge,
	}
	otherAnnotations := readAnnotations(settings)
	labels := append(slices.Clone(keptLabels), appsv1.DefaultDeploymentUniqueLabelKey, settings.Key(v1alpha1.SpreadMode))
	interner := &podInterner{}
	return func(object any) (any, error) {
		obj, ok := object.(client.Object)
		if !ok {
			return object, nil
		}
		annotations := otherAnnotations
		pod, isPod := object.(*corev1.Pod)
		if isPod {
			annotations = podAnnotations
		}
		dropOtherAnnotations(obj, annotations)
		outline(object)
		boundOutline(obj, labels, refusals)
		if !quota.admit(obj) {
			trim(obj, labels, annotations)
			refusals.Count(limit.CacheBytesPerNamespace)
		}
		if isPod {
			interner.intern(pod)
		}
		return object, nil
	}
}

// readAnnotations are the annotations that are read of objects other than pods.
func readAnnotations(settings snapshot.Settings) []string {
	keys := []string{v1alpha1.AnnotationPaused, v1alpha1.AnnotationReconcileAt, v1alpha1.AnnotationReset, v1alpha1.AnnotationTooLarge}
	for _, annotation := range []v1alpha1.SpreadAnnotation{
		v1alpha1.SpreadMode, v1alpha1.SpreadSpotPercentage, v1alpha1.SpreadMinOnDemand, v1alpha1.SpreadPDBOverride, v1alpha1.SpreadWindows,
		v1alpha1.SpreadDesired, v1alpha1.SpreadCurrent, v1alpha1.SpreadStatus, v1alpha1.SpreadReason, v1alpha1.SpreadSettings,
	} {
		keys = append(keys, settings.Key(annotation))
	}
	return keys
}

func outline(object any) any {
	switch object := object.(type) {
	case *corev1.Pod:
		object.Spec, object.ManagedFields = corev1.PodSpec{NodeName: object.Spec.NodeName, SchedulingGates: object.Spec.SchedulingGates,
			Volumes: claimVolumes(object.Spec.Volumes)}, nil
		object.OwnerReferences, object.GenerateName = controllerOf(object.OwnerReferences), ""
		status := object.Status
		object.Status = corev1.PodStatus{Phase: status.Phase, Reason: status.Reason, Message: status.Message, PodIP: status.PodIP,
			Conditions: podReadyCondition(status.Conditions)}
		if object.Labels[v1alpha1.LabelSwarm] != "" {
			object.Status.Conditions = status.Conditions
			object.Status.InitContainerStatuses, object.Status.ContainerStatuses = status.InitContainerStatuses, status.ContainerStatuses
		}
	case *appsv1.Deployment:
		object.Spec.Template, object.ManagedFields = templateOutline(object.Spec.Template), nil
	case *appsv1.StatefulSet:
		object.ManagedFields = nil
		if !controlledBy(object, "Swarm") {
			object.Spec.Template, object.Spec.VolumeClaimTemplates = templateOutline(object.Spec.Template), nil
		}
	case *corev1.Node:
		object.ManagedFields = nil
		object.Spec = corev1.NodeSpec{Taints: object.Spec.Taints, Unschedulable: object.Spec.Unschedulable}
		object.Status = corev1.NodeStatus{Conditions: nodeReadyCondition(object.Status.Conditions)}
	case *metav1.PartialObjectMetadata: // ConfigMaps and Services, whose contents are read on demand
		object.ManagedFields, object.Annotations = nil, nil
		object.OwnerReferences = controllerOf(object.OwnerReferences)
		object.Labels = pick(object.Labels, keptLabels...)
	case *appsv1.ControllerRevision, *v1alpha1.Swarm, *v1alpha1.Agent, *v1alpha1.Task, *v1alpha1.WorkerPool, *v1alpha1.SwarmSnapshot:
		outlineOurs(object.(client.Object))
	case client.Object:
		object.SetManagedFields(nil)
	}
	return object
}

// outlineOurs keeps spec and status of our kinds, and of the revisions of pools.
func outlineOurs(object client.Object) {
	object.SetManagedFields(nil)
	object.SetLabels(pick(object.GetLabels(), keptLabels...))
	switch object := object.(type) {
	case *appsv1.ControllerRevision:
		if !controlledBy(object, "WorkerPool") {
			object.Data = runtime.RawExtension{} // no pool reads it
		}
	case *v1alpha1.Task:
		payload.Drop(object)
		if object.Spec.Items != nil {
			object.Spec.Items.List = nil // up to 1.4 MB, and not supported yet
		}
	}
}

// keptLabels are those that are compared or selected, on objects of any kind. Users may add thousands of others, also with our prefix.
// Patches change only what differs from the cached object, so what is dropped here stays in the API server.
var keptLabels = []string{
	v1alpha1.LabelSwarm, v1alpha1.LabelAgentType, v1alpha1.LabelPool, v1alpha1.LabelSlot, v1alpha1.LabelManagedBy, "app.kubernetes.io/part-of",
}

// dropOtherAnnotations drops all other annotations: they may take 256 KiB in every object. Those of StatefulSets of a swarm stay.
func dropOtherAnnotations(object client.Object, names []string) {
	if set, ok := object.(*appsv1.StatefulSet); ok && controlledBy(set, "Swarm") {
		return
	}
	kept := pick(object.GetAnnotations(), names...)
	shortenValues(kept, maxOutlineBytes/2, maxValueBytes)
	object.SetAnnotations(kept)
}

// claimVolumes returns the volumes that may bind a pod to its node.
func claimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var result []corev1.Volume
	for _, volume := range volumes {
		if volume.PersistentVolumeClaim != nil {
			result = append(result, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: volume.PersistentVolumeClaim}})
		}
	}
	return result
}

// templateOutline keeps what a template says about nodes, and about the ports at which its pods are polled.
func templateOutline(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	spec := corev1.PodSpec{NodeName: template.Spec.NodeName, NodeSelector: template.Spec.NodeSelector, Affinity: template.Spec.Affinity,
		Tolerations: template.Spec.Tolerations}
	for n := range template.Spec.Containers {
		if ports := template.Spec.Containers[n].Ports; len(ports) > 0 {
			spec.Containers = append(spec.Containers, corev1.Container{Ports: ports})
		}
	}
	return corev1.PodTemplateSpec{Spec: spec}
}

// podReadyCondition copies the one condition that matters: a subslice would keep the whole list in memory.
func podReadyCondition(conditions []corev1.PodCondition) []corev1.PodCondition {
	for n := range conditions {
		if conditions[n].Type == corev1.PodReady {
			return []corev1.PodCondition{{Type: corev1.PodReady, Status: conditions[n].Status, LastTransitionTime: conditions[n].LastTransitionTime}}
		}
	}
	return nil
}

// nodeReadyCondition does the same for a node.
func nodeReadyCondition(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	for n := range conditions {
		if conditions[n].Type == corev1.NodeReady {
			return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: conditions[n].Status,
				LastTransitionTime: conditions[n].LastTransitionTime}}
		}
	}
	return nil
}

func controllerOf(owners []metav1.OwnerReference) []metav1.OwnerReference {
	for n := range owners {
		if owners[n].Controller != nil && *owners[n].Controller {
			return owners[n : n+1 : n+1]
		}
	}
	return nil
}

// pick copies the pairs with these keys to a new map: a map that was once large never shrinks.
func pick(values map[string]string, keys ...string) map[string]string {
	var picked map[string]string
	for _, key := range keys {
		if value, found := values[key]; found {
			if picked == nil {
				picked = map[string]string{}
			}
			picked[key] = value
		}
	}
	return picked
}

// hasLabel selects objects that have a label.
func hasLabel(key string) labels.Selector {
	requirement, err := labels.NewRequirement(key, selection.Exists, nil)
	utilruntime.Must(err) // fails only for an invalid key
	return labels.NewSelector().Add(*requirement)
}

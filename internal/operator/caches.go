package operator

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/admission"
	"github.com/swarm-io/swarm-operator/internal/authority"
)

// caches keep out what nobody looks at.
func caches(namespace string) cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:             authority.Cached(namespace),
			&corev1.Pod{}:                {Transform: outline},
			&appsv1.Deployment{}:         {Transform: outline},
			&appsv1.ControllerRevision{}: {Label: labelled(v1alpha1.LabelPool)}, // others hold whole templates

			&admissionv1.MutatingWebhookConfiguration{}: admission.Cached(),
		},
	}
}

// outline leaves of pods and Deployments what is needed to tell whose they are and how they are. Workers are found by the workload they
// belong to, which no label says, so that the cache holds all pods: they must be small.
func outline(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.Pod:
		object.Spec, object.ManagedFields = corev1.PodSpec{}, nil
		object.OwnerReferences = controllerOf(object.OwnerReferences)
		object.Annotations = only(object.Annotations, v1alpha1.AnnotationConfigVersion, v1alpha1.AnnotationNudge, corev1.PodDeletionCost)
		status := object.Status
		object.Status = corev1.PodStatus{Phase: status.Phase, Reason: status.Reason, Message: status.Message, PodIP: status.PodIP, Conditions: status.Conditions}
		if object.Labels[v1alpha1.LabelSwarm] != "" {
			object.Status.InitContainerStatuses, object.Status.ContainerStatuses = status.InitContainerStatuses, status.ContainerStatuses
		}
	case *appsv1.Deployment:
		object.Spec.Template, object.ManagedFields = corev1.PodTemplateSpec{}, nil
	}
	return object, nil
}

func controllerOf(owners []metav1.OwnerReference) []metav1.OwnerReference {
	for n := range owners {
		if owners[n].Controller != nil && *owners[n].Controller {
			return owners[n : n+1 : n+1]
		}
	}
	return nil
}

func only(annotations map[string]string, keys ...string) map[string]string {
	var left map[string]string
	for _, key := range keys {
		if value, found := annotations[key]; found {
			if left == nil {
				left = map[string]string{}
			}
			left[key] = value
		}
	}
	return left
}

// labelled selects what has a label.
func labelled(key string) labels.Selector {
	has, err := labels.NewRequirement(key, selection.Exists, nil)
	utilruntime.Must(err) // fails only for a label that is wrong in itself
	return labels.NewSelector().Add(*has)
}

package plan

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// Workload is the StatefulSet or Deployment whose pods are the workers.
type Workload struct {
	Object       metav1.Object
	Kind         v1alpha1.WorkloadKind
	Replicas     int // the requested number
	FirstOrdinal int
	Selector     *metav1.LabelSelector
	SpecObserved bool // the StatefulSet controller acts on the current spec, and its creates for an earlier one have been answered
}

// StatefulSetWorkload returns a StatefulSet as a workload.
func StatefulSetWorkload(set *appsv1.StatefulSet) Workload {
	w := Workload{
		Object: set, Kind: v1alpha1.WorkloadStatefulSet, Replicas: int(ptr.Deref(set.Spec.Replicas, 1)), Selector: set.Spec.Selector,
		SpecObserved: set.Status.ObservedGeneration >= set.Generation,
	}
	if set.Spec.Ordinals != nil {
		w.FirstOrdinal = int(set.Spec.Ordinals.Start)
	}
	return w
}

// DeploymentWorkload returns a Deployment as a workload.
func DeploymentWorkload(deployment *appsv1.Deployment) Workload {
	return Workload{
		Object: deployment, Kind: v1alpha1.WorkloadDeployment, Replicas: int(ptr.Deref(deployment.Spec.Replicas, 1)),
		Selector: deployment.Spec.Selector,
	}
}

// usesSlots reports whether we assign slots to pods, because they have no ordinals.
func (w Workload) usesSlots() bool { return w.Kind == v1alpha1.WorkloadDeployment }

// expectsOrdinal reports whether the workload requires a pod with that ordinal.
func (w Workload) expectsOrdinal(ordinal int) bool {
	return ordinal >= w.FirstOrdinal && ordinal < w.FirstOrdinal+w.Replicas
}

// podName returns the name of a StatefulSet's pod.
func (w Workload) podName(ordinal int) string {
	return fmt.Sprintf("%s-%d", w.Object.GetName(), ordinal)
}

// ordinalOf returns the ordinal of a StatefulSet's pod by name, or -1.
func (w Workload) ordinalOf(pod string) int {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(pod, w.Object.GetName()+"-"))
	if err != nil {
		return -1
	}
	return ordinal
}

// DoesNotOwn reports whether the workload does not control a pod.
func (w Workload) DoesNotOwn(pod *corev1.Pod) bool {
	key, owned := workload.OwnerOf(pod)
	return !owned || key.Kind != w.Kind || key.Name != w.Object.GetName() ||
		!w.usesSlots() && metav1.GetControllerOfNoCopy(pod).UID != w.Object.GetUID()
}

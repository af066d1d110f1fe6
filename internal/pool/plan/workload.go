package plan

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// Workload is the StatefulSet or Deployment whose pods are the workers.
type Workload struct {
	Object       client.Object
	Kind         v1alpha1.WorkloadKind
	Replicas     int // the requested number
	FirstOrdinal int // the first ordinal
	Selector     *metav1.LabelSelector
	SpecObserved bool // the StatefulSet controller acts on the current spec, and its creates for an earlier one have been answered
}

// usesSlots reports whether we assign slots to pods, because they have no ordinals.
func (w Workload) usesSlots() bool { return w.Kind == v1alpha1.WorkloadDeployment }

// expectsOrdinal reports whether the workload requires a pod with that ordinal.
func (w Workload) expectsOrdinal(ordinal int) bool {
	return ordinal >= w.FirstOrdinal && ordinal < w.FirstOrdinal+w.Replicas
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
	key, owned := workloads.OwnerOf(pod)
	return !owned || key.Kind != w.Kind || key.Name != w.Object.GetName() ||
		!w.usesSlots() && metav1.GetControllerOfNoCopy(pod).UID != w.Object.GetUID()
}

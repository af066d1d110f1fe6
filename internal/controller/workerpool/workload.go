package workerpool

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// poolWorkload is the StatefulSet or Deployment whose pods are the workers.
type poolWorkload struct {
	object       client.Object
	kind         v1alpha1.WorkloadKind
	replicas     int // the requested number
	firstOrdinal int // the first ordinal
	selector     *metav1.LabelSelector
	specObserved bool // the StatefulSet controller acts on the current spec, and its creates for an earlier one have been answered
}

// usesSlots reports whether we assign slots to pods, because they have no ordinals.
func (w poolWorkload) usesSlots() bool { return w.kind == v1alpha1.WorkloadDeployment }

// expectsOrdinal reports whether the workload requires a pod with that ordinal.
func (w poolWorkload) expectsOrdinal(ordinal int) bool {
	return ordinal >= w.firstOrdinal && ordinal < w.firstOrdinal+w.replicas
}

// ordinalOf returns the ordinal of a StatefulSet's pod by name, or -1.
func (w poolWorkload) ordinalOf(pod string) int {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(pod, w.object.GetName()+"-"))
	if err != nil {
		return -1
	}
	return ordinal
}

// doesNotOwn reports whether the workload does not control a pod.
func (w poolWorkload) doesNotOwn(pod *corev1.Pod) bool {
	key, owned := workloads.OwnerOf(pod)
	return !owned || key.Kind != w.kind || key.Name != w.object.GetName() ||
		!w.usesSlots() && metav1.GetControllerOfNoCopy(pod).UID != w.object.GetUID()
}

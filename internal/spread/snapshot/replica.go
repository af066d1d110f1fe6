package snapshot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// Number returns the number of a pod among the replicas of its workload: from its name, or from the annotation set by admission.
func (s Settings) Number(workload workloads.Workload, pod metav1.Object) int {
	text, first := pod.GetAnnotations()[s.Key(v1alpha1.SpreadNumber)], 0
	if workload.Key.Kind == v1alpha1.WorkloadStatefulSet {
		text, first = strings.TrimPrefix(pod.GetName(), workload.Key.Name+"-"), workload.FirstOrdinal
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < first || number-first >= split.MaxReplicas {
		return split.Unnumbered
	}
	return number - first
}

// templateNodeChoice returns how a template selects nodes itself: a label of the classes, or nodeName; "" if it does not.
func (s Settings) templateNodeChoice(workload workloads.Workload) string {
	if workload.PodSpec.NodeName != "" {
		return "nodeName"
	}
	for _, label := range slices.Concat(s.Spot, s.OnDemand) {
		if _, found := workload.PodSpec.NodeSelector[label.Key]; found || requiresLabel(workload.PodSpec.Affinity, label.Key) {
			return label.Key
		}
	}
	return ""
}

func requiresLabel(affinity *corev1.Affinity, key string) bool {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == key }) {
			return true
		}
	}
	return false
}

// sortByName sorts pods by name.
func sortByName(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

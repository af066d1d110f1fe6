package spread

import (
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// Place restricts a pod to the nodes of a class, and records its number among the replicas. What the pod itself requires stays in
// force. Repeating it changes nothing; placing the pod elsewhere removes the former node requirements.
func Place(pod *corev1.Pod, class split.Class, number int, settings snapshot.Settings) {
	if choices := classAlternatives(settings, class); len(choices) > 0 {
		required := requiredNodeSelector(pod)
		required.NodeSelectorTerms = addAlternatives(removeRequirements(required.NodeSelectorTerms, ownRequirements(settings)), choices)
	}
	for _, wanted := range settings.Tolerations(class) {
		if !isTolerated(pod.Spec.Tolerations, wanted) {
			pod.Spec.Tolerations = append(slices.Clip(pod.Spec.Tolerations), wanted)
		}
	}
	annotate(pod, class, number, settings)
}

// requiredNodeSelector returns the node requirements of a pod, to be changed in place.
func requiredNodeSelector(pod *corev1.Pod) *corev1.NodeSelector {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	nodes := pod.Spec.Affinity.NodeAffinity
	if nodes.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	return nodes.RequiredDuringSchedulingIgnoredDuringExecution
}

// A requirements is what a node must fulfil to be of a class.
type requirements []corev1.NodeSelectorRequirement

// classAlternatives returns the alternatives that make a node belong to a class. A spot node has one of the labels; an on-demand node has
// none of them, since many nodes have no label of any class.
func classAlternatives(settings snapshot.Settings, class split.Class) []requirements {
	var spot []requirements
	var onDemand requirements
	for _, label := range groupByKey(settings.Spot) {
		spot = append(spot, requirements{{Key: label.key, Operator: corev1.NodeSelectorOpIn, Values: label.values}})
		onDemand = append(onDemand, corev1.NodeSelectorRequirement{Key: label.key, Operator: corev1.NodeSelectorOpNotIn, Values: label.values})
	}
	if class == split.Spot || onDemand == nil {
		return spot
	}
	return []requirements{onDemand}
}

// ownRequirements returns everything that Place may have required of nodes.
func ownRequirements(settings snapshot.Settings) requirements {
	return slices.Concat(slices.Concat(classAlternatives(settings, split.Spot)...),
		slices.Concat(classAlternatives(settings, split.OnDemand)...))
}

type labelValues struct {
	key    string
	values []string
}

// groupByKey groups the values of labels by key, in the order of the keys.
func groupByKey(labels []snapshot.Label) []labelValues {
	var all []labelValues
	for _, label := range labels {
		at := slices.IndexFunc(all, func(v labelValues) bool { return v.key == label.Key })
		if at < 0 {
			at, all = len(all), append(all, labelValues{key: label.Key})
		}
		all[at].values = append(all[at].values, label.Value)
	}
	return all
}

// removeRequirements removes our requirements from terms. A term that is then empty, or a duplicate of another, was created by us and is
// dropped.
func removeRequirements(terms []corev1.NodeSelectorTerm, own requirements) []corev1.NodeSelectorTerm {
	var remaining []corev1.NodeSelectorTerm
	for _, term := range terms {
		before := len(term.MatchExpressions)
		term.MatchExpressions = slices.DeleteFunc(slices.Clone(term.MatchExpressions), func(r corev1.NodeSelectorRequirement) bool {
			return slices.ContainsFunc(own, func(own corev1.NodeSelectorRequirement) bool { return equality.Semantic.DeepEqual(own, r) })
		})
		same := func(other corev1.NodeSelectorTerm) bool { return equality.Semantic.DeepEqual(other, term) }
		if nothing := isEmptyTerm(term) && before > 0; !nothing && !slices.ContainsFunc(remaining, same) {
			remaining = append(remaining, term)
		}
	}
	return remaining
}

// addAlternatives adds one of the choices to each term. Terms are alternatives, so several choices multiply them. An empty term matches no
// node and stays empty.
func addAlternatives(terms []corev1.NodeSelectorTerm, alternatives []requirements) []corev1.NodeSelectorTerm {
	var all []corev1.NodeSelectorTerm
	if len(terms) == 0 {
		for _, alternative := range alternatives {
			all = append(all, corev1.NodeSelectorTerm{MatchExpressions: alternative})
		}
	}
	for _, term := range terms {
		if isEmptyTerm(term) {
			all = append(all, term)
			continue
		}
		for _, alternative := range alternatives {
			all = append(all, corev1.NodeSelectorTerm{MatchExpressions: slices.Concat(term.MatchExpressions, alternative),
				MatchFields: term.MatchFields})
		}
	}
	return all
}

func isEmptyTerm(term corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
}

// isTolerated reports whether tolerations cover the taint that another one is for.
func isTolerated(tolerations []corev1.Toleration, wanted corev1.Toleration) bool {
	taint := corev1.Taint{Key: wanted.Key, Value: wanted.Value, Effect: wanted.Effect}
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), &taint, true) })
}

// annotate records the placement on a pod. The deletion cost makes a Deployment remove the highest numbers first when it shrinks, unless
// its template sets a cost; a StatefulSet goes by ordinals.
func annotate(pod *corev1.Pod, class split.Class, number int, settings snapshot.Settings) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	owner, _ := workload.OwnerOf(pod)
	if cost, found := pod.Annotations[corev1.PodDeletionCost]; owner.Kind == v1alpha1.WorkloadDeployment &&
		(!found || cost == previousDeletionCost(pod, settings)) {
		pod.Annotations[corev1.PodDeletionCost] = strconv.Itoa(-number)
	}
	pod.Annotations[settings.Key(v1alpha1.SpreadNumber)] = strconv.Itoa(number)
	pod.Annotations[settings.Key(v1alpha1.SpreadClass)] = string(class)
}

// previousDeletionCost returns the deletion cost that a former placement set on a pod, or "".
func previousDeletionCost(pod *corev1.Pod, settings snapshot.Settings) string {
	number, err := strconv.Atoi(pod.Annotations[settings.Key(v1alpha1.SpreadNumber)])
	if err != nil {
		return ""
	}
	return strconv.Itoa(-number)
}

package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// Node is what the spread engine needs to know of a node.
type Node struct {
	Class        split.Class
	LabelProblem LabelProblem
	Schedulable  bool           // is Ready and not cordoned
	Taints       []corev1.Taint // that keep away pods that do not tolerate them
	Notice       string         // the notice that it is going away, "" for none
	NotReady     bool           // is not Ready
	Provisioned  bool           // was created by a provisioner
	Labels       map[string]string
	Name         string

	NoticeTaints  []corev1.Taint // all taints that say it is going away
	InterruptedAt metav1.Time    // when its interruption was first seen; zero if not recorded
}

// Interrupted reports whether a node is going away for another reason than a cordon.
func (n Node) Interrupted() bool {
	return n.Notice == deletionNotice || n.Notice != "" && n.NotReady || slices.ContainsFunc(n.NoticeTaints, func(notice corev1.Taint) bool {
		return notice.Key != corev1.TaintNodeUnschedulable
	})
}

// deletionNotice is the notice of a node that is being deleted.
const deletionNotice = "deletion"

// LabelProblem is an inconsistency in a node's labels.
type LabelProblem string

// The problems.
const (
	// Unlabelled has the label of no class, and counts as on-demand.
	Unlabelled LabelProblem = "unlabelled"
	// Ambiguous has labels of both classes, and counts as spot, since it may vanish.
	Ambiguous LabelProblem = "ambiguous"
)

// provisionerLabels are labels that provisioners and autoscaled node groups set on their nodes.
var provisionerLabels = []string{"karpenter.sh/nodepool", "karpenter.sh/provisioner-name", "eks.amazonaws.com/nodegroup",
	"cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"}

// Node evaluates a node.
func (s Settings) Node(node *corev1.Node) Node {
	class, odd := s.classOf(node.Labels)
	result := Node{Name: node.Name, Class: class, LabelProblem: odd, Schedulable: !node.Spec.Unschedulable && isNodeReady(node),
		NotReady: !isNodeReady(node), Labels: node.Labels}
	for _, taint := range node.Spec.Taints {
		if !result.NotReady && isNotReadyTaint(taint.Key) {
			continue
		}
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			result.Taints = append(result.Taints, taint)
		}
		if s.isNotice(taint.Key) {
			result.Notice = cmp.Or(result.Notice, taint.Key)
			result.NoticeTaints = append(result.NoticeTaints, taint)
		}
	}
	if node.DeletionTimestamp != nil {
		result.Schedulable, result.Notice = false, deletionNotice
	}
	result.Provisioned = slices.ContainsFunc(provisionerLabels, func(key string) bool { _, found := node.Labels[key]; return found })
	return result
}

func (s Settings) classOf(labels map[string]string) (split.Class, LabelProblem) {
	spot, onDemand := hasAnyLabel(labels, s.Spot), hasAnyLabel(labels, s.OnDemand)
	switch {
	case spot && onDemand:
		return split.Spot, Ambiguous
	case spot:
		return split.Spot, ""
	case onDemand:
		return split.OnDemand, ""
	}
	return split.OnDemand, Unlabelled
}

func hasAnyLabel(labels map[string]string, known []Label) bool {
	return slices.ContainsFunc(known, func(l Label) bool { value, found := labels[l.Key]; return found && value == l.Value })
}

// isNotice reports whether a taint says that its node is going away.
func (s Settings) isNotice(key string) bool {
	return slices.ContainsFunc(s.Notices, func(pattern string) bool {
		start, isPrefix := strings.CutSuffix(pattern, "*")
		return key == pattern || isPrefix && strings.HasPrefix(key, start)
	})
}

// isNotReadyTaint reports whether a taint says that its node is not Ready. The controller manager may set and remove it seconds late, so
// the node's own condition decides.
func isNotReadyTaint(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
}

func isNodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// mustLeave reports whether pods with these tolerations have to leave a node. Pods that tolerate every notice would come back to it. On a
// node that is down no pod serves, whatever it tolerates.
func (n Node) mustLeave(tolerations []corev1.Toleration) bool {
	return n.Notice != "" && (n.Notice == deletionNotice || n.NotReady || len(n.untoleratedNotices(tolerations)) > 0)
}

// mustLeaveForCordon reports whether pods with these tolerations have to leave a node only because it is cordoned.
func (n Node) mustLeaveForCordon(tolerations []corev1.Toleration) bool {
	other := func(notice corev1.Taint) bool { return notice.Key != corev1.TaintNodeUnschedulable }
	return n.mustLeave(tolerations) && n.Notice != deletionNotice && !n.NotReady &&
		!slices.ContainsFunc(n.untoleratedNotices(tolerations), other)
}

// untoleratedNotices returns the notices that pods with these tolerations do not tolerate for good.
func (n Node) untoleratedNotices(tolerations []corev1.Toleration) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.NoticeTaints), func(notice corev1.Taint) bool {
		return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			return t.TolerationSeconds == nil && t.ToleratesTaint(logr.Discard(), &notice, true)
		})
	})
}

// accepts reports whether a node accepts pods with these tolerations.
func (n Node) accepts(tolerations []corev1.Toleration) bool {
	return n.Schedulable && n.Notice == "" && !slices.ContainsFunc(n.Taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), &taint, true) })
	})
}

// Tolerations returns those that nodes of a class may require: some clouds taint nodes with the label that marks the class.
func (s Settings) Tolerations(class split.Class) []corev1.Toleration {
	var all []corev1.Toleration
	for _, label := range s.LabelsOf(class) {
		all = append(all, corev1.Toleration{Key: label.Key, Operator: corev1.TolerationOpEqual, Value: label.Value,
			Effect: corev1.TaintEffectNoSchedule})
	}
	return all
}

// LabelsOf returns the labels of a class.
func (s Settings) LabelsOf(class split.Class) []Label {
	if class == split.Spot {
		return s.Spot
	}
	return s.OnDemand
}

// ParseLabels reads comma-separated labels of the form key=value.
func ParseLabels(text string) ([]Label, error) {
	var all []Label
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); !found || value == "" ||
			len(problems) > 0 {
			return nil, fmt.Errorf("%q is no label: write key=value, such as karpenter.sh/capacity-type=spot", part)
		}
		all = append(all, Label{key, value})
	}
	return all, nil
}

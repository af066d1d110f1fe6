package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/swarm-io/swarm-operator/internal/spread"
)

// Node is what the spread engine needs to know of a node.
type Node struct {
	Class  spread.Class
	Odd    Oddity
	Open   bool           // is Ready and not cordoned
	Taints []corev1.Taint // that keep away pods that do not tolerate them
	Going  string         // the notice that it is going away, "" for none
	Down   bool           // is not Ready
	Made   bool           // was created by a provisioner
	Labels map[string]string
	Name   string

	Notices []corev1.Taint // all taints that say it is going away
	Noticed metav1.Time    // when its interruption was first seen; zero if not recorded
}

// Interrupted reports whether a node is going away for another reason than a cordon.
func (n Node) Interrupted() bool {
	return n.Going == deletion || n.Going != "" && n.Down || slices.ContainsFunc(n.Notices, func(notice corev1.Taint) bool {
		return notice.Key != corev1.TaintNodeUnschedulable
	})
}

// deletion is the notice of a node that is being deleted.
const deletion = "deletion"

// Oddity is an inconsistency in a node's labels.
type Oddity string

// The oddities.
const (
	// Unlabelled has the label of no class, and counts as on-demand.
	Unlabelled Oddity = "unlabelled"
	// Ambiguous has labels of both classes, and counts as spot, since it may vanish.
	Ambiguous Oddity = "ambiguous"
)

// provisioned are labels that provisioners and autoscaled node groups set on their nodes.
var provisioned = []string{"karpenter.sh/nodepool", "karpenter.sh/provisioner-name", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"}

// Node evaluates a node.
func (s Settings) Node(node *corev1.Node) Node {
	class, odd := s.classOf(node.Labels)
	judged := Node{Name: node.Name, Class: class, Odd: odd, Open: !node.Spec.Unschedulable && ready(node), Down: !ready(node), Labels: node.Labels}
	for _, taint := range node.Spec.Taints {
		if !judged.Down && silent(taint.Key) {
			continue
		}
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			judged.Taints = append(judged.Taints, taint)
		}
		if s.notice(taint.Key) {
			judged.Going = cmp.Or(judged.Going, taint.Key)
			judged.Notices = append(judged.Notices, taint)
		}
	}
	if node.DeletionTimestamp != nil {
		judged.Open, judged.Going = false, deletion
	}
	judged.Made = slices.ContainsFunc(provisioned, func(key string) bool { _, found := node.Labels[key]; return found })
	return judged
}

func (s Settings) classOf(labels map[string]string) (spread.Class, Oddity) {
	spot, onDemand := carries(labels, s.Spot), carries(labels, s.OnDemand)
	switch {
	case spot && onDemand:
		return spread.Spot, Ambiguous
	case spot:
		return spread.Spot, ""
	case onDemand:
		return spread.OnDemand, ""
	}
	return spread.OnDemand, Unlabelled
}

func carries(labels map[string]string, known []Label) bool {
	return slices.ContainsFunc(known, func(l Label) bool { value, found := labels[l.Key]; return found && value == l.Value })
}

// notice reports whether a taint says that its node is going away.
func (s Settings) notice(key string) bool {
	return slices.ContainsFunc(s.Notices, func(pattern string) bool {
		start, isPrefix := strings.CutSuffix(pattern, "*")
		return key == pattern || isPrefix && strings.HasPrefix(key, start)
	})
}

// silent reports whether a taint says that its node is not Ready. The controller manager may set and remove it seconds late, so the
// node's own condition decides.
func silent(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// leaves reports whether pods with these tolerations have to leave a node. Pods that tolerate every notice would come back to it. On a
// node that is down no pod serves, whatever it tolerates.
func (n Node) leaves(tolerations []corev1.Toleration) bool {
	return n.Going != "" && (n.Going == deletion || n.Down || len(n.heeded(tolerations)) > 0)
}

// cordoned reports whether pods with these tolerations have to leave a node only because it is cordoned.
func (n Node) cordoned(tolerations []corev1.Toleration) bool {
	other := func(notice corev1.Taint) bool { return notice.Key != corev1.TaintNodeUnschedulable }
	return n.leaves(tolerations) && n.Going != deletion && !n.Down && !slices.ContainsFunc(n.heeded(tolerations), other)
}

// heeded returns the notices that pods with these tolerations do not tolerate for good.
func (n Node) heeded(tolerations []corev1.Toleration) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.Notices), func(notice corev1.Taint) bool {
		return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			return t.TolerationSeconds == nil && t.ToleratesTaint(logr.Discard(), &notice, true)
		})
	})
}

// takes reports whether a node accepts pods with these tolerations.
func (n Node) takes(tolerations []corev1.Toleration) bool {
	return n.Open && n.Going == "" && !slices.ContainsFunc(n.Taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), &taint, true) })
	})
}

// Tolerations returns those that nodes of a class may require: some clouds taint nodes with the label that marks the class.
func (s Settings) Tolerations(class spread.Class) []corev1.Toleration {
	var all []corev1.Toleration
	for _, label := range s.LabelsOf(class) {
		all = append(all, corev1.Toleration{Key: label.Key, Operator: corev1.TolerationOpEqual, Value: label.Value, Effect: corev1.TaintEffectNoSchedule})
	}
	return all
}

// LabelsOf returns the labels of a class.
func (s Settings) LabelsOf(class spread.Class) []Label {
	if class == spread.Spot {
		return s.Spot
	}
	return s.OnDemand
}

// ParseLabels reads comma-separated labels of the form key=value.
func ParseLabels(text string) ([]Label, error) {
	var all []Label
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); !found || value == "" || len(problems) > 0 {
			return nil, fmt.Errorf("%q is no label: write key=value, such as karpenter.sh/capacity-type=spot", part)
		}
		all = append(all, Label{key, value})
	}
	return all, nil
}

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

// Node is what matters of a node.
type Node struct {
	Class  spread.Class
	Odd    Oddity
	Open   bool           // is Ready and not cordoned
	Taints []corev1.Taint // that keep pods away which do not tolerate them
	Going  string         // the notice that it is going away, "" for none
	Down   bool           // is not Ready
	Made   bool           // a provisioner made it
	Labels map[string]string
	Name   string

	Notices []corev1.Taint // all that say so
	Noticed metav1.Time    // when it was first seen to be interrupted; zero if nobody keeps that
}

// Interrupted reports whether a node is going away for another reason than a cordon.
func (n Node) Interrupted() bool {
	return n.Going == deletion || n.Going != "" && n.Down || slices.ContainsFunc(n.Notices, func(notice corev1.Taint) bool {
		return notice.Key != corev1.TaintNodeUnschedulable
	})
}

// deletion is the notice of a node that somebody has deleted.
const deletion = "deletion"

// Oddity is what is strange about a node's labels.
type Oddity string

// The oddities.
const (
	// Unlabelled has the label of no class, and counts as on-demand.
	Unlabelled Oddity = "unlabelled"
	// Ambiguous has labels of both classes, and counts as spot, since it may vanish.
	Ambiguous Oddity = "ambiguous"
)

// provisioned are labels that provisioners and autoscaled groups of nodes leave on what they make.
var provisioned = []string{"karpenter.sh/nodepool", "karpenter.sh/provisioner-name", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"}

// Node judges a node.
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

// notice tells whether a taint says that its node is going away.
func (s Settings) notice(key string) bool {
	return slices.ContainsFunc(s.Notices, func(pattern string) bool {
		start, isPrefix := strings.CutSuffix(pattern, "*")
		return key == pattern || isPrefix && strings.HasPrefix(key, start)
	})
}

// silent tells whether a taint says that its node is not Ready. It may be set late, on a node that is by now, and stays until the
// controller manager looks again, seconds later: of the two it is the node that knows.
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

// leaves tells whether pods with these tolerations have to go from a node. Those that tolerate every notice would come back to it; one that
// is down serves nobody, whoever tolerates that.
func (n Node) leaves(tolerations []corev1.Toleration) bool {
	return n.Going != "" && (n.Going == deletion || n.Down || len(n.heeded(tolerations)) > 0)
}

// cordoned reports whether pods with these tolerations have to go from a node only because it is cordoned.
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

// takes tells whether a node would have a pod with these tolerations.
func (n Node) takes(tolerations []corev1.Toleration) bool {
	return n.Open && n.Going == "" && !slices.ContainsFunc(n.Taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), &taint, true) })
	})
}

// Tolerations are those that nodes of a class may ask for: some clouds taint nodes with the label by which they are known.
func (s Settings) Tolerations(class spread.Class) []corev1.Toleration {
	var all []corev1.Toleration
	for _, label := range s.LabelsOf(class) {
		all = append(all, corev1.Toleration{Key: label.Key, Operator: corev1.TolerationOpEqual, Value: label.Value, Effect: corev1.TaintEffectNoSchedule})
	}
	return all
}

// LabelsOf are the labels of a class.
func (s Settings) LabelsOf(class spread.Class) []Label {
	if class == spread.Spot {
		return s.Spot
	}
	return s.OnDemand
}

// ParseLabels reads labels of the form key=value, several of them with commas between.
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

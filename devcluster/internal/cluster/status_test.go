package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStatusNamesTheNodesThatAreNotReady(t *testing.T) {
	node := func(name string, is corev1.ConditionStatus, taints ...corev1.Taint) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: is, Reason: "Why", Message: "in\nmore words"},
			}}}
	}
	late := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	for _, c := range []struct {
		reason string
		nodes  []corev1.Node
		want   string
	}{
		{"all", []corev1.Node{node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue)}, "2 of 2 Ready"},
		{"one is silent", []corev1.Node{node("a", corev1.ConditionUnknown), node("b", corev1.ConditionTrue)},
			"1 of 2 Ready; not a: Why: in more words"},
		{"one has just come", []corev1.Node{node("a", corev1.ConditionTrue), {ObjectMeta: metav1.ObjectMeta{Name: "b"}}},
			"1 of 2 Ready; not b: it has not reported yet"},
		{"a taint that came late", []corev1.Node{node("a", corev1.ConditionTrue, late), node("b", corev1.ConditionTrue)}, "2 of 2 Ready"},
		{"none is there", nil, "0 of 2 Ready"},
	} {
		if got := readiness(c.nodes, 2); got != c.want {
			t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
		}
	}
}

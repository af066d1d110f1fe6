package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

func node(labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func TestNode(t *testing.T) {
	spot, onDemand := map[string]string{capacityTypeLabel: "spot"}, map[string]string{capacityTypeLabel: "on-demand"}
	cordoned, unready, leaving := node(spot), node(spot), node(spot)
	cordoned.Spec.Unschedulable = true
	unready.Status.Conditions[0].Status = corev1.ConditionUnknown
	leaving.DeletionTimestamp = &metav1.Time{}
	unreachable := unready.DeepCopy()
	unreachable.Spec.Taints = []corev1.Taint{taint("node.kubernetes.io/unreachable", corev1.TaintEffectNoSchedule)}
	both := testSettings()
	both.OnDemand = append(both.OnDemand, Label{"pool", "steady"})
	for _, c := range []struct {
		reason   string
		settings Settings
		node     *corev1.Node
		class    split.Class
		odd      LabelProblem
		takes    bool
		going    string
	}{
		{"spot", testSettings(), node(spot), split.Spot, "", true, ""},
		{"on-demand", testSettings(), node(onDemand), split.OnDemand, "", true, ""},
		{"another value counts as on-demand", testSettings(), node(map[string]string{capacityTypeLabel: "reserved"}), split.OnDemand, Unlabelled,
			true, ""},
		{"no label counts as on-demand", testSettings(), node(nil), split.OnDemand, Unlabelled, true, ""},
		{"labels of both classes count as spot", both, node(map[string]string{capacityTypeLabel: "spot", "pool": "steady"}), split.Spot,
			Ambiguous, true, ""},
		{"cordoned", testSettings(), cordoned, split.Spot, "", false, ""},
		{"not Ready", testSettings(), unready, split.Spot, "", false, ""},
		{"not Ready, and everybody says so", DefaultSettings(), unreachable, split.Spot, "", false, "node.kubernetes.io/unreachable"},
		{"Ready, and the taint comes late", DefaultSettings(), node(spot, taint("node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute)),
			split.Spot, "", true, ""},
		{"being deleted", testSettings(), leaving, split.Spot, "", false, "deletion"},
		{"a taint that is not tolerated", testSettings(), node(spot, taint("gpu", corev1.TaintEffectNoSchedule)), split.Spot, "", false, ""},
		{"a taint that only prefers", testSettings(), node(spot, taint("gpu", corev1.TaintEffectPreferNoSchedule)), split.Spot, "", true, ""},
		{"the taint of its class", testSettings(), node(spot, corev1.Taint{Key: capacityTypeLabel, Value: "spot",
			Effect: corev1.TaintEffectNoSchedule}), split.Spot, "", true, ""},
		{"a notice", testSettings(), node(spot, taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule)), split.Spot, "", false,
			"karpenter.sh/disrupted"},
		{"a notice by pattern that only prefers", testSettings(), node(spot,
			taint("aws-node-termination-handler/spot-itn", corev1.TaintEffectPreferNoSchedule)), split.Spot, "", false,
			"aws-node-termination-handler/spot-itn"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got := c.settings.Node(c.node)
			if got.Class != c.class || got.LabelProblem != c.odd || got.Notice != c.going || got.NotReady == isNodeReady(c.node) ||
				got.accepts(c.settings.Tolerations(c.class)) != c.takes {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestProvisionedNodes(t *testing.T) {
	if testSettings().Node(node(nil)).Provisioned || !testSettings().Node(node(map[string]string{"karpenter.sh/nodepool": "default"})).
		Provisioned {
		t.Error("a provisioner's node is not told from others")
	}
}

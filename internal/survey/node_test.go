package survey

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/internal/spread"
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

func TestNodesAreJudged(t *testing.T) {
	spot, onDemand := map[string]string{capacity: "spot"}, map[string]string{capacity: "on-demand"}
	cordoned, unready, leaving := node(spot), node(spot), node(spot)
	cordoned.Spec.Unschedulable = true
	unready.Status.Conditions[0].Status = corev1.ConditionUnknown
	leaving.DeletionTimestamp = &metav1.Time{}
	shunned := unready.DeepCopy()
	shunned.Spec.Taints = []corev1.Taint{taint("node.kubernetes.io/unreachable", corev1.TaintEffectNoSchedule)}
	both := standard()
	both.OnDemand = append(both.OnDemand, Label{"pool", "steady"})
	for _, c := range []struct {
		reason   string
		settings Settings
		node     *corev1.Node
		class    spread.Class
		odd      Oddity
		takes    bool
		going    string
	}{
		{"spot", standard(), node(spot), spread.Spot, "", true, ""},
		{"on-demand", standard(), node(onDemand), spread.OnDemand, "", true, ""},
		{"another value counts as on-demand", standard(), node(map[string]string{capacity: "reserved"}), spread.OnDemand, Unlabelled, true, ""},
		{"no label counts as on-demand", standard(), node(nil), spread.OnDemand, Unlabelled, true, ""},
		{"labels of both classes count as spot", both, node(map[string]string{capacity: "spot", "pool": "steady"}), spread.Spot, Ambiguous, true, ""},
		{"cordoned", standard(), cordoned, spread.Spot, "", false, ""},
		{"not Ready", standard(), unready, spread.Spot, "", false, ""},
		{"not Ready, and everybody says so", Standard(), shunned, spread.Spot, "", false, "node.kubernetes.io/unreachable"},
		{"Ready, and the taint comes late", Standard(), node(spot, taint("node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute)), spread.Spot, "", true, ""},
		{"being deleted", standard(), leaving, spread.Spot, "", false, "deletion"},
		{"a taint that is not tolerated", standard(), node(spot, taint("gpu", corev1.TaintEffectNoSchedule)), spread.Spot, "", false, ""},
		{"a taint that only prefers", standard(), node(spot, taint("gpu", corev1.TaintEffectPreferNoSchedule)), spread.Spot, "", true, ""},
		{"the taint of its class", standard(), node(spot, corev1.Taint{Key: capacity, Value: "spot", Effect: corev1.TaintEffectNoSchedule}), spread.Spot, "", true, ""},
		{"a notice", standard(), node(spot, taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule)), spread.Spot, "", false, "karpenter.sh/disrupted"},
		{"a notice by pattern that only prefers", standard(), node(spot, taint("aws-node-termination-handler/spot-itn", corev1.TaintEffectPreferNoSchedule)), spread.Spot, "", false, "aws-node-termination-handler/spot-itn"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got := c.settings.Node(c.node)
			if got.Class != c.class || got.Odd != c.odd || got.Going != c.going || got.Down == ready(c.node) || got.takes(c.settings.Tolerations(c.class)) != c.takes {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestProvisionedNodesAreKnown(t *testing.T) {
	if standard().Node(node(nil)).Made || !standard().Node(node(map[string]string{"karpenter.sh/nodepool": "default"})).Made {
		t.Error("a provisioner's node is not told from others")
	}
}

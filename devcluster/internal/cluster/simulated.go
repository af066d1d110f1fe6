package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// simulated marks the nodes that kwok plays, as annotation and, beside real nodes, as taint.
const simulated = "kwok.x-k8s.io/node"

// labels that every node has, real or simulated: three zones in turn, on-demand and spot in turn.
func labels(n int) map[string]string {
	return map[string]string{
		corev1.LabelTopologyRegion:   "devcluster",
		corev1.LabelTopologyZone:     "zone-" + string(rune('a'+(n-1)%3)),
		"karpenter.sh/capacity-type": []string{"on-demand", "spot"}[(n-1)%2],
	}
}

// simulate makes the simulated nodes.
func (c *Cluster) simulate(ctx context.Context, client dynamic.Interface) error {
	for n := 1; n <= c.Options.SimulatedNodes; n++ {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.simulatedNode(n))
		if err != nil {
			return fmt.Errorf("encode a simulated node: %w", err)
		}
		if err := createOne(ctx, client, &unstructured.Unstructured{Object: object}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) simulatedNode(n int) *corev1.Node {
	name := fmt.Sprintf("simulated-%d", n)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("250"),
	}
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(n), Annotations: map[string]string{simulated: "fake"}},
		Status:     corev1.NodeStatus{Allocatable: room, Capacity: room},
	}
	node.Labels[corev1.LabelHostname] = name
	node.Labels[corev1.LabelOSStable] = "linux"
	node.Labels["type"] = "kwok"
	if c.Options.RealNodes > 0 {
		// Where pods can really run, they go to a simulated node only when they ask for it.
		node.Spec.Taints = []corev1.Taint{{Key: simulated, Value: "fake", Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

// stages configures the life cycle of nodes and pods in kwok: they become ready at once.
func (c *Cluster) stages() error {
	text := strings.Join([]string{
		nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	}, "\n---\n")
	if err := os.WriteFile(c.path("kwok.yaml"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write kwok's stages: %w", err)
	}
	return nil
}

package spread

import (
	"context"
	"fmt"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	capacity = "karpenter.sh/capacity-type"
	spot     = "spot"
	onDemand = "on-demand"
	// disruptionTaint is a taint that announces the end of a node.
	disruptionTaint = "karpenter.sh/disrupted"
)

// cordonAll cordons the cluster's own nodes until the suite ends: specs have their own nodes.
func cordonAll(ctx context.Context) {
	GinkgoHelper()
	list := &corev1.NodeList{}
	Expect(api.List(ctx, list)).To(Succeed())
	for n := range list.Items {
		if name := list.Items[n].Name; !list.Items[n].Spec.Unschedulable {
			cordon(ctx, name, true)
			DeferCleanup(func(ctx SpecContext) { cordon(ctx, name, false) })
		}
	}
}

// cordon closes a node for new pods, or opens it again.
func cordon(ctx context.Context, name string, closed bool) {
	GinkgoHelper()
	patchNode(ctx, name, types.MergePatchType, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, closed))
}

func patchNode(ctx context.Context, name string, kind types.PatchType, patch string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(api.Patch(ctx, node, client.RawPatch(kind, []byte(patch)))).To(Succeed())
}

// taintNode adds the notice to a node.
func taintNode(ctx context.Context, name string) {
	GinkgoHelper()
	patchNode(ctx, name, types.JSONPatchType, fmt.Sprintf(`[{"op":"add","path":"/spec/taints/-","value":{"key":%q,"effect":"NoSchedule"}}]`,
		disruptionTaint))
}

// remove deletes a node without any notice.
func remove(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

// zones are where nodes are.
var zones = []string{"a", "b", "c"}

// nodes makes a node of each class in each zone.
func (s *environment) nodes(ctx context.Context, classes ...string) {
	GinkgoHelper()
	for _, class := range classes {
		for _, zone := range zones {
			s.node(ctx, class+"-"+zone, withLabels(map[string]string{capacity: class, corev1.LabelTopologyZone: zone}))
		}
	}
	s.open(ctx)
}

// node creates a node for pods of this environment only, with room for many of them.
func (s *environment) node(ctx context.Context, name string, changes ...func(*corev1.Node)) {
	GinkgoHelper()
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("250"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.nodeName(name), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{corev1.LabelHostname: s.nodeName(name), corev1.LabelOSStable: "linux", ours: s.namespace},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: ours, Value: s.namespace, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: resources, Capacity: resources},
	}
	for _, change := range changes {
		change(node)
	}
	Expect(api.Create(ctx, node)).To(Succeed())
}

func withLabels(labels map[string]string) func(*corev1.Node) {
	return func(node *corev1.Node) { maps.Copy(node.Labels, labels) }
}

// small has room for this many pods.
func small(pods string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Allocatable[corev1.ResourcePods], node.Status.Capacity[corev1.ResourcePods] = resource.MustParse(pods),
			resource.MustParse(pods)
	}
}

// nodeName is the full name of a node of this scene.
func (s *environment) nodeName(name string) string { return s.namespace + "-" + name }

// open waits until all nodes of the environment accept pods. A new node does not.
func (s *environment) open(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() ([]string, error) {
		list := &corev1.NodeList{}
		err := api.List(ctx, list, client.MatchingLabels{ours: s.namespace})
		var waiting []string
		for _, node := range list.Items {
			if len(node.Spec.Taints) != 1 || !isReady(node.Status.Conditions) {
				waiting = append(waiting, node.Name)
			}
		}
		return waiting, err
	}).WithPolling(20 * time.Millisecond).Should(BeEmpty())
}

func isReady(conditions []corev1.NodeCondition) bool {
	for _, condition := range conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// classes are the classes of all nodes, by the labels that the cluster has.
func classes(ctx context.Context, label string) (map[string]string, error) {
	list := &corev1.NodeList{}
	err := api.List(ctx, list)
	found := map[string]string{}
	for _, node := range list.Items {
		found[node.Name] = node.Labels[label]
	}
	return found, err
}

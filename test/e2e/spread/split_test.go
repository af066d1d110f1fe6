package spread

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
)

const (
	capacity = "karpenter.sh/capacity-type"
	onDemand = "on-demand"
	spot     = "spot"
)

// classes are the classes of all nodes that run pods.
func classes(ctx context.Context) map[string]string {
	GinkgoHelper()
	list, classByNode := &corev1.NodeList{}, map[string]string{}
	Expect(api.List(ctx, list)).To(Succeed())
	for _, node := range list.Items {
		if !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 {
			classByNode[node.Name] = onDemand
			if node.Labels[capacity] == spot {
				classByNode[node.Name] = spot
			}
		}
	}
	Expect(slices.Collect(maps.Values(classByNode))).To(ContainElements(onDemand, spot),
		"bring up a cluster with `devcluster up --real-nodes 2`")
	return classByNode
}

// spotNode is the only one.
func spotNode() string {
	GinkgoHelper()
	var names []string
	for name, class := range nodes {
		if class == spot {
			names = append(names, name)
		}
	}
	Expect(names).To(HaveLen(1), "spot nodes")
	return names[0]
}

func distribution(onDemand, spot int) string {
	return fmt.Sprintf("on-demand:%d,spot:%d", onDemand, spot)
}

// pods are the pods of a workload.
func pods(ctx context.Context, labels client.MatchingLabels) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(namespace), labels)
	return list.Items, err
}

func labelsOf(workload client.Object) client.MatchingLabels {
	return client.MatchingLabels{"app": workload.GetName()}
}

// serving is how many pods that are Ready are on nodes of each class, and how many pods there are.
func serving(ctx context.Context, labels client.MatchingLabels) (split string, all int, err error) {
	podList, err := pods(ctx, labels)
	counts := map[string]int{}
	for _, pod := range podList {
		if podwatch.IsAvailable(&pod) {
			counts[nodes[pod.Spec.NodeName]]++
		}
	}
	return distribution(counts[onDemand], counts[spot]), len(podList), err
}

// awaitSplit waits until this many pods are available on nodes of each class, and no others are left.
func awaitSplit(ctx context.Context, labels client.MatchingLabels, onDemand, spot int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		split, all, err := serving(ctx, labels)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(split).To(Equal(distribution(onDemand, spot)))
		g.Expect(all).To(Equal(onDemand + spot))
	}).WithContext(ctx).Should(Succeed())
}

// awaitBalanced waits for a split, and until the workload and `kubectl swarm spread` say so.
func awaitBalanced(ctx context.Context, workload client.Object, onDemand, spot int) {
	GinkgoHelper()
	awaitSplit(ctx, labelsOf(workload), onDemand, spot)
	want := distribution(onDemand, spot)
	Eventually(spreadAnnotations).WithContext(ctx).WithArguments(workload).Should(And(
		HaveKeyWithValue(annotationKey(v1alpha1.SpreadDesired), want), HaveKeyWithValue(annotationKey(v1alpha1.SpreadCurrent), want),
		HaveKeyWithValue(annotationKey(v1alpha1.SpreadStatus), v1alpha1.SpreadBalanced), Not(HaveKey(annotationKey(v1alpha1.SpreadReason))),
	))
	Expect(mustKubectl(ctx, "swarm", "spread", "--namespace", namespace, workload.GetName())).To(MatchRegexp(`%s +%d +%s +%s +Balanced`,
		workload.GetName(), onDemand+spot, want, want))
}

// spreadAnnotations are the annotations of a workload.
func spreadAnnotations(ctx context.Context, workload client.Object) (map[string]string, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(workload), workload)
	return workload.GetAnnotations(), err
}

// countEvictions counts the pods of a workload that the operator has evicted according to its events.
func countEvictions(ctx context.Context, workload client.Object) (count int, err error) {
	list := &corev1.EventList{}
	err = api.List(ctx, list, client.InNamespace(namespace))
	for _, event := range list.Items {
		if event.InvolvedObject.Name == workload.GetName() && event.Reason == "PodRescheduled" {
			count += int(max(event.Count, 1))
			if event.Series != nil {
				count += int(event.Series.Count) - 1
			}
		}
	}
	return count, err
}

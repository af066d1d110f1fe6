package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

var _ = Describe("A killed kubelet", Serial, func() {
	BeforeEach(skipUnlessOwnCluster)

	It("takes no pod with it, and after its restart takes up what waited for it", func(ctx SpecContext) {
		node, kubelet := nodes[0], nodes[0]+"/kubelet"
		old := startPod(ctx, httpServer().onNode(node).pod("old"))
		witness := startPod(ctx, idler().onNode(nodes[1]).pod("witness"))

		DeferCleanup(restartComponent, kubelet)
		Expect(devcluster(ctx, "kill", kubelet)).To(BeEmpty())
		Expect(state(ctx, kubelet)).To(Equal("killed"))

		waiting := idler().onNode(node).pod("waiting")
		create(ctx, waiting)
		Eventually(fetch[*corev1.Pod]).WithContext(ctx).WithArguments(waiting).Should(HaveField("Spec.NodeName", node),
			"the node is not given up yet")
		Expect(fetchFrom(ctx, witness, url(old.Status.PodIP))).To(Equal("old"), "its process runs without a kubelet")
		Expect(fetch(ctx, waiting)).To(HaveField("Status.ContainerStatuses", BeEmpty()), "no kubelet runs to start it")

		Expect(devcluster(ctx, "restart", kubelet)).To(BeEmpty())
		Eventually(state).WithContext(ctx).WithArguments(kubelet).Should(Equal("running"))
		awaitReady(ctx, "waiting")
		Eventually(fetch[*corev1.Node]).WithContext(ctx).WithArguments(nodeNamed(node)).Should(Satisfy(isNodeReady))
		Expect(containerOf(awaitReady(ctx, "old"))).To(Equal(containerOf(old)), "the new kubelet found the old container and left it alone")
		Expect(fetchFrom(ctx, witness, url(old.Status.PodIP))).To(Equal("old"))
	})
})

func containerOf(pod *corev1.Pod) string { return pod.Status.ContainerStatuses[0].ContainerID }

// restartComponent restarts the kubelet for the next spec, even if this one failed.
func restartComponent(ctx SpecContext, component string) {
	if now, err := state(ctx, component); err == nil && now == "running" {
		return
	}
	Expect(devcluster(ctx, "restart", component)).To(BeEmpty())
}

// state is the state of a component of the cluster.
func state(ctx context.Context, component string) (string, error) {
	// The command also exits with an error when not everything runs: what it printed decides.
	output, failure := devcluster(ctx, "status", "--output", "json")
	var status struct {
		Components []struct{ Name, State string }
	}
	if err := json.Unmarshal([]byte(output), &status); err != nil {
		return "", fmt.Errorf("decode status %q (%w): %w", output, failure, err)
	}
	for _, one := range status.Components {
		if one.Name == component {
			return one.State, nil
		}
	}
	return "", fmt.Errorf("find %s in status: %s", component, output)
}

package kubernetes

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("A drained node", Serial, func() {
	It("loses its pods to the other node, and their volumes follow them", func(ctx SpecContext) {
		drained, other := nodes[0], nodes[1]
		create(ctx, headless("store"),
			httpServer().preferring(drained).deployment("web", 2),
			httpServer().preferring(drained).claiming("data").statefulSet("store", 1))
		Expect(awaitServing(ctx, "web", 2)).To(HaveEach(HaveField("Spec.NodeName", drained)))
		store := awaitReady(ctx, "store-0")
		Expect(store.Spec.NodeName).To(Equal(drained))
		Expect(execProbe(ctx, store, "write", "/data/note", "carried along")).To(BeEmpty())

		DeferCleanup(uncordon, drained)
		Expect(drain(ctx, drained)).To(ContainSubstring("drained"))

		Expect(awaitServing(ctx, "web", 2)).To(HaveEach(HaveField("Spec.NodeName", other)))
		store = awaitSuccessor(ctx, store)
		Expect(store.Spec.NodeName).To(Equal(other))
		Expect(content(ctx, store, "/data/note")).To(Equal("carried along"))
		Expect(fetch(ctx, nodeNamed(drained))).To(HaveField("Spec.Unschedulable", BeTrue()))

		uncordon(ctx, drained)
		startPod(ctx, idler().onNode(drained).pod("newcomer"))
	})
})

// drain takes only this spec's pods off the node: a shared cluster may have others.
func drain(ctx context.Context, node string) (string, error) {
	return kubectl(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", timeout.String(),
		"--pod-selector", spaceLabel+"="+namespace)
}

func uncordon(ctx context.Context, node string) {
	_, err := kubectl(ctx, "uncordon", node)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
}

func nodeNamed(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

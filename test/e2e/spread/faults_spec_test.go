package spread

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
)

var _ = Describe("A split through faults", func() {
	It("is made up for when the operator was away while pods were made [R26/pods-created, R26/corrected]", Serial, func(ctx SpecContext) {
		awaitCovered(ctx)
		DeferCleanup(func(ctx SpecContext) { cluster.ScaleOperator(ctx, 2) })
		cluster.ScaleOperator(ctx, 0)
		web := deployment(spreadMeta("web", 2, 80), 10)
		create(ctx, web)
		var wrong int
		Eventually(func(g Gomega) {
			found, err := pods(ctx, labelsOf(web))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HaveLen(10))
			wrong = -2
			for _, pod := range found {
				g.Expect(podwatch.IsAvailable(&pod)).To(BeTrue(), "it runs all the same")
				g.Expect(pod.Annotations).NotTo(HaveKey(annotationKey(v1alpha1.SpreadClass)))
				if nodes[pod.Spec.NodeName] == onDemand {
					wrong++
				}
			}
		}).WithContext(ctx).Should(Succeed())
		Expect(wrong).To(BeNumerically(">", 0), "the scheduler alone does not know what is wanted")

		began := time.Now()
		cluster.ScaleOperator(ctx, 2)
		awaitBalanced(ctx, web, 2, 8)
		reportMeasurement("moved after the operator was back", time.Since(began).Round(time.Second).String())
		moves, err := countEvictions(ctx, web)
		Expect(err).NotTo(HaveOccurred())
		reportMeasurement("pods in the wrong place", wrong)
		Expect(moves).To(Equal(wrong), "none is moved twice: the leader waits until its Service leads to it")
	})

	It("is right in the end when the leader is killed in a burst", func(ctx SpecContext) {
		chaos.SkipOnForeignCluster()
		awaitCovered(ctx)
		web := deployment(spreadMeta("web", 2, 60), 30)
		create(ctx, web)
		Eventually(pods).WithContext(ctx).WithArguments(labelsOf(web)).WithPolling(10 * time.Millisecond).
			Should(WithTransform(func(made []corev1.Pod) int { return len(made) }, BeNumerically(">=", 4)))
		cluster.KillLeader(ctx)
		made, err := pods(ctx, labelsOf(web))
		Expect(err).NotTo(HaveOccurred())
		reportMeasurement("pods made when the leader was dead", len(made))
		awaitBalanced(ctx, web, 12, 18)
		moves, err := countEvictions(ctx, web)
		Expect(err).NotTo(HaveOccurred())
		reportMeasurement("pods moved after the estimates", moves)
		cluster.AwaitOperator(ctx)
	})
})

package spread

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("The only spot node", Serial, func() {
	It("is drained and comes back: pods are replaced elsewhere within their budget, and return in steps [R04/budget-respected, R06/node-cordoned, R06/fallback, R06/return]", func(ctx SpecContext) {
		awaitCovered(ctx)
		web := deployment(spreadMeta("web", 2, 50), 8)
		create(ctx, web, budget("web", 6))
		awaitBalanced(ctx, web, 4, 4)
		seen := watchPods(ctx, web)

		DeferCleanup(func(ctx SpecContext) { mustKubectl(ctx, "uncordon", spotNode()) })
		// Only this spec's pods: the operator may have one there.
		mustKubectl(ctx, "drain", spotNode(), "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", timeout.String(), "--pod-selector",
			"app=web")
		awaitSplit(ctx, labelsOf(web), 8, 0)
		Eventually(spreadAnnotations).WithContext(ctx).WithArguments(web).Should(And(
			HaveKeyWithValue(annotationKey(v1alpha1.SpreadStatus), v1alpha1.SpreadSpotUnavailable),
			HaveKeyWithValue(annotationKey(v1alpha1.SpreadCurrent), distribution(8, 0))))
		Expect(mustKubectl(ctx, "get", "events", "--namespace", namespace, "--field-selector", "reason=SpotUnavailable")).
			To(ContainSubstring("deployment/web"))
		before, drained := len(changes(seen)), count(seen, becameUnavailable(spot))
		Consistently(func() (int, error) {
			found, err := pods(ctx, client.MatchingLabels{"app": "web"})
			return len(found), err
		}).WithContext(ctx).WithTimeout(quietPeriod).Should(Equal(8), "at rest")

		began := time.Now()
		mustKubectl(ctx, "uncordon", spotNode())
		awaitBalanced(ctx, web, 4, 4)
		reportMeasurement("back on spot after", time.Since(began).Round(time.Second).String())
		Expect(changes(seen)[before:][:2]).To(HaveExactElements(becameUnavailable(onDemand), becameAvailable(spot)),
			"one tries before others follow")
		Expect(count(seen, becameUnavailable(onDemand))).To(Equal(4))
		Expect([]int{drained, count(seen, becameUnavailable(spot))}).To(HaveEach(4), "once each")
		Expect(seen.Lowest()).To(BeNumerically(">=", 6), "as the budget has it")
	})
})

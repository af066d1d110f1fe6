package pool

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/chronicle"
	"github.com/swarm-io/swarm-operator/internal/testkit/gang"
)

// restarting replaces the pods whose list changes, at most so many of them at a time.
func restarting(maxUnavailable int32) spec {
	return func(spec *v1alpha1.WorkerPoolSpec) {
		spec.Refresh.Policy, spec.Refresh.MaxUnavailable = v1alpha1.RefreshRestart, maxUnavailable
	}
}

// lastNudge returns the annotation by which a pod was nudged again, "" before that.
func (s *scene) lastNudge(ctx context.Context, pod string) string {
	GinkgoHelper()
	return s.pod(ctx, pod).Annotations[v1alpha1.AnnotationNudge]
}

var _ = Describe("A refresh", func() {
	DescribeTable("[P07/max-unavailable] replaces every worker, and never has more of them down than maxUnavailable", func(ctx SpecContext, maxUnavailable int) {
		const size = 5
		s := stage(ctx, size, named("a b c d e"), restarting(int32(maxUnavailable)))
		before := map[string]string{}
		for worker := range s.lists(ctx) {
			before[worker] = string(s.pod(ctx, worker).UID)
		}
		Expect(before).To(HaveLen(size))
		watched := chronicle.Of(ctx, api, s.in, client.MatchingLabels{"app": workload})
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = named("a b c d e f g h i j") })
		s.settle(ctx)
		Expect(watched.Lowest()).To(Equal(size-maxUnavailable), "as many as may be down at a time were down, and no more")
		for worker, uid := range before {
			Expect(s.uid(ctx, worker)).NotTo(Equal(uid), "of worker %s", worker)
		}
	},
		Entry("one at a time", 1),
		Entry("two at a time", 2),
	)

	It("[P08/nudged-again] nudges a worker again that has not acknowledged, and no other", func(ctx SpecContext) {
		r := revoking(ctx, (*gang.Worker).Hold, hotReload)
		Eventually(r.lastNudge).WithContext(ctx).WithArguments("w-0").Should(Equal("2.1"), "the first one after version 2 was published")
		r.worker("w-0").Release()
		r.done(ctx)
		Expect(r.lastNudge(ctx, "w-0")).To(Equal("2.1"), "it has acknowledged")
		Expect(r.lastNudge(ctx, "w-1")).To(BeEmpty(), "it acknowledged at once")
	})
})

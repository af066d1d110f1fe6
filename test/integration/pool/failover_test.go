package pool

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// vanishedFinalizer keeps a pod that was deleted, as a node does that is not there to end it.
const vanishedFinalizer = "example.com/vanished"

var _ = Describe("Workers that are not ready", func() {
	It("are evicted after a while, and lose their jobs when they are gone", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 4, jobsNamed("a b c d e f g h"))
		former := s.worker("w-3")
		former.PauseFileUpdates() // its process hangs
		before := s.lists(ctx)["w-3"]
		s.readiness(ctx, corev1.ConditionFalse, "w-3")
		Consistently(s.lists).WithContext(ctx).Should(HaveKeyWithValue("w-3", before), "not before afterSeconds")
		s.change(ctx, failover(1, 25))
		Eventually(s.events).WithContext(ctx).Should(ContainElement(And(HavePrefix("Normal Replacing: pod w-3: "),
			ContainSubstring("not ready for too long"))))
		Eventually(s.uid).WithContext(ctx).WithArguments("w-3").ShouldNot(Or(BeEmpty(), Equal(former.UID())))
		s.awaitSettled(ctx)
		Eventually(s.lists).WithContext(ctx).Should(HaveLen(4), "its successor takes part")
	})

	It("keep their jobs on a node that has vanished until a user declares the pod gone, and the pool says for whom it waits",
		func(ctx SpecContext) {
			s := newStatefulSetPool(ctx, 4, jobsNamed("a b c d e f g h"))
			s.worker("w-3").PauseFileUpdates()
			held := s.lists(ctx)["w-3"]
			lost := s.pod(ctx, "w-3")
			change(ctx, lost, func(pod *corev1.Pod) {
				pod.Finalizers = append(pod.Finalizers,
					vanishedFinalizer)
			}) // no kubelet reports that it has ended
			s.readiness(ctx, corev1.ConditionFalse, "w-3")
			s.change(ctx, failover(1, 25))
			Eventually(func() bool { return s.pod(ctx, "w-3").DeletionTimestamp.IsZero() }).Should(BeFalse(), "it is evicted")
			s.waiting(ctx, "w-3")
			Consistently(func() []string {
				lists := s.lists(ctx)
				return slices.Concat(lists["w-0"], lists["w-1"], lists["w-2"])
			}).ShouldNot(ContainElements(held), "no other worker may have them")

			change(ctx, lost, func(pod *corev1.Pod) {
				pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(name string) bool { return name == vanishedFinalizer })
			})
			Eventually(s.uid).WithContext(ctx).WithArguments("w-3").ShouldNot(Or(BeEmpty(), Equal(string(lost.UID))))
			s.awaitSettled(ctx)
		})

	It("keep their jobs when they are too many at once", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 4, jobsNamed("a b c d e f g h"))
		before := s.text(ctx)
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Mode = v1alpha1.PoolPaused })
		Eventually(s.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionConverged).Should(HavePrefix("False Paused: "))
		s.readiness(ctx, corev1.ConditionFalse, "w-2", "w-3")
		s.awaitWorkers(ctx, 2)
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) {
			failover(1, 25)(spec)
			spec.Mode = v1alpha1.PoolRunning
		})
		s.awaitDegraded(ctx, v1alpha1.ReasonFailoverFrozen,
			"2 of 4 workers were not ready for 1s, the first is w-2, and at most 1 (25 %) may lose their jobs at once")
		Consistently(s.text).WithContext(ctx).Should(Equal(before))
		s.readiness(ctx, corev1.ConditionTrue, "w-2", "w-3")
		s.awaitNotDegraded(ctx)
		Eventually(func() map[string][]string { return workers.Journal(s.namespace).Running() }).Should(HaveLen(4))
	})
})

func failover(after, percent int32) spec {
	return func(spec *v1alpha1.WorkerPoolSpec) {
		spec.Failover = v1alpha1.PoolFailover{AfterSeconds: after, MaxPercent: percent}
	}
}

// awaitWorkers waits until this many workers take part.
func (s *environment) awaitWorkers(ctx context.Context, size int) {
	GinkgoHelper()
	Eventually(func() string {
		_ = s.conditionText(ctx, v1alpha1.ConditionReady)
		return fmt.Sprint(s.pool.Status.Size)
	}).Should(Equal(fmt.Sprint(size)))
}

package pool

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
)

// restarting replaces the pods whose list changes, at most this many of them at a time.
func restarting(maxUnavailable int32) spec {
	return func(spec *v1alpha1.WorkerPoolSpec) {
		spec.Refresh.Policy, spec.Refresh.MaxUnavailable = v1alpha1.RefreshRestart, maxUnavailable
	}
}

// heldFinalizer is a finalizer that keeps a pod Terminating until the spec removes it.
const heldFinalizer = "pool.suite.swarm.io/held"

// addFinalizers gives a pod these finalizers of the spec, and leaves those of its worker.
func (s *environment) addFinalizers(ctx context.Context, name string, finalizers ...string) {
	GinkgoHelper()
	change(ctx, s.pod(ctx, name), func(pod *corev1.Pod) {
		pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(finalizer string) bool { return finalizer == heldFinalizer })
		pod.Finalizers = append(pod.Finalizers, finalizers...)
	})
}

// pods returns the UIDs of all pods, by name.
func (s *environment) pods(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	list, uids := &corev1.PodList{}, map[string]types.UID{}
	Expect(api.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	for _, pod := range list.Items {
		uids[pod.Name] = pod.UID
	}
	return uids
}

// terminating returns the names of pods that are being deleted.
func (s *environment) terminating(ctx context.Context) []string {
	GinkgoHelper()
	list, names := &corev1.PodList{}, []string(nil)
	Expect(api.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	for _, pod := range list.Items {
		if pod.DeletionTimestamp != nil {
			names = append(names, pod.Name)
		}
	}
	return names
}

// lastNudge returns the annotation by which a pod was nudged again, "" before that.
func (s *environment) lastNudge(ctx context.Context, pod string) string {
	GinkgoHelper()
	return s.pod(ctx, pod).Annotations[v1alpha1.AnnotationNudge]
}

var _ = Describe("A refresh", func() {
	DescribeTable("[P07/max-unavailable] replaces every worker, and never has more of them down than maxUnavailable",
		func(ctx SpecContext, maxUnavailable int) {
			const size = 3
			s := newStatefulSetPool(ctx, size, jobsNamed("a b c"), restarting(int32(maxUnavailable)))
			before := s.pods(ctx)
			for name := range before {
				s.addFinalizers(ctx, name, heldFinalizer)
			}
			watched := podwatch.Watch(ctx, api, s.namespace, client.MatchingLabels{"app": workload})
			s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = jobsNamed("a b c d e f") })
			for replaced := 0; replaced < size; {
				batch := min(maxUnavailable, size-replaced)
				Eventually(s.terminating).WithContext(ctx).Should(HaveLen(batch))
				Consistently(s.terminating).WithContext(ctx).Should(HaveLen(batch))
				for _, name := range s.terminating(ctx) {
					s.addFinalizers(ctx, name)
				}
				replaced += batch
			}
			s.awaitSettled(ctx)
			Expect(watched.Lowest()).To(Equal(size-maxUnavailable), "from the first pod to the last")
			for name, uid := range s.pods(ctx) {
				Expect(uid).NotTo(Equal(before[name]), "of worker %s", name)
			}
		},
		Entry("one at a time", 1),
		Entry("two at a time", 2),
	)

	It("[P08/nudged-again] nudges a worker again that has not acknowledged, and no other", func(ctx SpecContext) {
		r := startRevoke(ctx, (*fakeworkers.Worker).PauseFileUpdates, hotReload)
		Eventually(r.status).WithContext(ctx).Should(And(
			HaveField("Version", BeNumerically(">=", 2)),
			HaveField("Workers", ContainElement(And(HaveField("Name", "w-1"), HaveField("Acknowledged", v1alpha1.AckReceived))))))
		other := r.lastNudge(ctx, "w-1") // none, if it has acknowledged before it was due
		Eventually(r.lastNudge).WithContext(ctx).WithArguments("w-0").Should(HavePrefix("2."), "after version 2 was published")
		r.worker("w-0").ResumeFileUpdates()
		r.expectDone(ctx)
		last := r.lastNudge(ctx, "w-0")
		Consistently(r.lastNudge).WithContext(ctx).WithArguments("w-0").Should(Equal(last), "it has acknowledged")
		Expect(r.lastNudge(ctx, "w-1")).To(Equal(other), "it had acknowledged")
	})
})

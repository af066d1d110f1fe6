package pool

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/gang"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// leaseSeconds is how long the Leases of the workers last.
const leaseSeconds = "8"

// silence is how long such a Lease must not have been renewed.
var silence = lease.Silence(8 * time.Second)

// leased is stage, with workers that have a Lease of their own.
func leased(ctx context.Context, size int32, jobs []v1alpha1.Job) *scene {
	GinkgoHelper()
	s := empty(ctx)
	labels := map[string]string{"app": workload}
	template := gang.Template(labels, config)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, gang.Lease, leaseSeconds)
	Expect(api.Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.in, Name: workload},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &size, PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: workload,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	})).To(Succeed())
	s.create(ctx, jobs)
	s.settle(ctx)
	return s
}

// given are the jobs on the lists of workers.
func (s *scene) given(ctx context.Context, workers ...string) []string {
	GinkgoHelper()
	var jobs []string
	lists := s.lists(ctx)
	for _, worker := range workers {
		jobs = append(jobs, lists[worker]...)
	}
	return jobs
}

// vanish deletes a pod by force, whose process lives on.
func (s *scene) vanish(ctx context.Context, name string) *gang.Worker {
	GinkgoHelper()
	lost := s.worker(name)
	lost.Outlive()
	Expect(api.Delete(ctx, s.pod(ctx, name), client.GracePeriodSeconds(0))).To(Succeed())
	return lost
}

var _ = Describe("Workers with a Lease of their own", func() {
	It("keep their jobs after their pod is gone for as long as they renew it, whatever happens to the operator", func(ctx SpecContext) {
		s := leased(ctx, 3, named("a b c d e f g h i"))
		held := s.lists(ctx)["w-2"]
		Expect(held).NotTo(BeEmpty())
		lost := s.worker("w-2")
		lost.Outlive()
		s.scale(ctx, 2) // nobody comes in its place
		Eventually(s.uid).WithContext(ctx).WithArguments("w-2").Should(BeEmpty())
		Eventually(s.said).WithContext(ctx).WithArguments(v1alpha1.ConditionConverged).Should(And(
			HavePrefix("False Converging: "), ContainSubstring("w-2: its pod "+lost.UID()+" is gone, but holds Lease \"swarm-worker-w-2\""), HaveSuffix("it is still renewed")))
		nobody := func() []string { return s.given(ctx, "w-0", "w-1") }
		Consistently(nobody).WithTimeout(silence+2*time.Second).ShouldNot(ContainElement(BeElementOf(held)), "it is alive, and has them")
		Expect(lost.Runs()).To(Equal(held))
		halt()
		begin()
		Consistently(nobody).WithTimeout(silence+2*time.Second).ShouldNot(ContainElement(BeElementOf(held)), "the next leader looks, too")

		lost.Kill()
		died := time.Now()
		Eventually(nobody).Should(ContainElements(held))
		// Its last renewal may have been just before, and up to a third of its time ago.
		Expect(time.Since(died)).To(BeNumerically(">", silence-4*time.Second))
		s.settle(ctx)
	})

	It("have stopped before others get their jobs, when they cannot renew it", func(ctx SpecContext) {
		s := leased(ctx, 3, named("a b c d e f g h i"))
		held := s.lists(ctx)["w-2"]
		lost := s.worker("w-2")
		lost.Outlive()
		s.scale(ctx, 2)
		Eventually(s.uid).WithContext(ctx).WithArguments("w-2").Should(BeEmpty())
		lost.Sever(true)
		Eventually(lost.Runs).WithTimeout(silence).Should(BeEmpty())
		Expect(s.given(ctx, "w-0", "w-1")).NotTo(ContainElement(BeElementOf(held)))
		s.settle(ctx)
		Expect(s.given(ctx, "w-0", "w-1")).To(ContainElements(held))
		lost.Sever(false)
		Consistently(lost.Runs).WithTimeout(silence).Should(BeEmpty(), "its pod is gone: it does not come back")
		lost.Kill()
	})

	It("wait for the Lease of the one before, under the same name", func(ctx SpecContext) {
		s := leased(ctx, 3, named("a b c d e f g h i"))
		held := s.lists(ctx)["w-1"]
		lost := s.vanish(ctx, "w-1")
		Eventually(s.uid).WithContext(ctx).WithArguments("w-1").ShouldNot(Or(BeEmpty(), Equal(lost.UID())))
		Eventually(func() *gang.Worker { return workers.Of(s.in, "w-1") }).ShouldNot(BeNil())
		successor := s.worker("w-1")
		Consistently(successor.Runs).WithTimeout(silence + 2*time.Second).Should(BeEmpty())
		Expect(lost.Runs()).To(Equal(held))
		lost.Sever(true)
		Eventually(successor.Runs).Should(Equal(held))
		Expect(lost.Runs()).To(BeEmpty())
		s.settle(ctx)
		lost.Kill()
	})

	It("give it back when they are asked to stop, and start at once in a new pod", func(ctx SpecContext) {
		s := leased(ctx, 2, named("a b c d"))
		former := s.worker("w-0")
		Expect(api.Delete(ctx, s.pod(ctx, "w-0"))).To(Succeed())
		Eventually(former.Runs).Should(BeEmpty())
		begun := time.Now()
		Eventually(func() bool {
			next := workers.Of(s.in, "w-0")
			return next != nil && next.UID() != former.UID() && len(next.Runs()) == 2
		}).Should(BeTrue())
		Expect(time.Since(begun)).To(BeNumerically("<", silence), "nobody had to wait for the Lease")
		s.settle(ctx)
	})
})

var _ = Describe("Workers without a Lease", func() {
	It("lose their jobs with their pod", func(ctx SpecContext) {
		s := stage(ctx, 3, named("a b c d e f"))
		held := s.lists(ctx)["w-2"]
		s.scale(ctx, 2)
		Eventually(func() []string { return s.given(ctx, "w-0", "w-1") }).Should(ContainElements(held))
		s.settle(ctx)
	})
})

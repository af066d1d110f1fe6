package pool

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// leaseSeconds is how long the Leases of the workers last.
const leaseSeconds = "8"

// leaseTime is leaseSeconds as a duration.
const leaseTime = 8 * time.Second

// leaseSilence is how long such a Lease must be without a renewal.
var leaseSilence = lease.TakeoverDelay(leaseTime)

// newLeasedPool returns an environment with workers that have their own Lease.
func newLeasedPool(ctx context.Context, size int32, jobs []v1alpha1.Job) *environment {
	GinkgoHelper()
	s := newEnvironment(ctx)
	labels := map[string]string{"app": workload}
	template := fakeworkers.Template(labels, config)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, fakeworkers.Lease, leaseSeconds)
	Expect(api.Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &size, PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: workload,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	})).To(Succeed())
	s.create(ctx, jobs)
	s.awaitSettled(ctx)
	return s
}

// lease is that of a worker.
func (s *environment) lease(ctx context.Context, worker string) *coordinationv1.Lease {
	GinkgoHelper()
	found := &coordinationv1.Lease{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: lease.Name(worker)}, found)).To(Succeed())
	return found
}

// listedJobs are the jobs on the lists of workers.
func (s *environment) listedJobs(ctx context.Context, workers ...string) []string {
	GinkgoHelper()
	var jobs []string
	lists := s.lists(ctx)
	for _, worker := range workers {
		jobs = append(jobs, lists[worker]...)
	}
	return jobs
}

// jobMove returns what ended a job at a worker, and the start at the next one.
func (s *environment) jobMove(job string, from *fakeworkers.Worker) (stop, start fakeworkers.Entry) {
	GinkgoHelper()
	for _, entry := range workers.Journal(s.namespace) {
		switch {
		case entry.Job != job:
		case entry.UID == from.UID():
			stop = entry
		case start.Event == "":
			start = entry
		}
	}
	Expect(stop.Event).To(Equal("stop"), "of %s at its first worker", job)
	Expect(start.Event).To(Equal("start"), "of %s at the next", job)
	return stop, start
}

// forceDeletePod deletes a pod by force, and its process lives on.
func (s *environment) forceDeletePod(ctx context.Context, name string) *fakeworkers.Worker {
	GinkgoHelper()
	lost := s.worker(name)
	lost.OutlivePod()
	Expect(api.Delete(ctx, s.pod(ctx, name), client.GracePeriodSeconds(0))).To(Succeed())
	return lost
}

// forceReplacePod deletes a pod by force, and its process lives on. It returns that process and the one in the new pod of the same name.
func (s *environment) forceReplacePod(ctx context.Context, name string) (former, successor *fakeworkers.Worker) {
	GinkgoHelper()
	former = s.forceDeletePod(ctx, name)
	Eventually(s.uid).WithContext(ctx).WithArguments(name).ShouldNot(Or(BeEmpty(), Equal(former.UID())))
	Eventually(func() *fakeworkers.Worker { return workers.Worker(s.namespace, name) }).ShouldNot(Or(BeNil(), BeIdenticalTo(former)))
	return former, s.worker(name)
}

var _ = Describe("Workers with a Lease of their own", func() {
	// This is mostly waiting, so both kinds of removal are tested at the same time.
	It("keep their jobs after their pod is gone for as long as they renew it, whatever happens to the operator, also when a pod of the same name comes", func(ctx SpecContext) {
		s, renamed := newLeasedPool(ctx, 3, jobsNamed("a b c d e f g h i")), newLeasedPool(ctx, 3, jobsNamed("a b c d e f g h i"))
		held, heldBefore := s.lists(ctx)["w-2"], renamed.lists(ctx)["w-1"]
		Expect(held).NotTo(BeEmpty())
		lost := s.worker("w-2")
		lost.OutlivePod()
		s.scale(ctx, 2) // no worker replaces it
		former, successor := renamed.forceReplacePod(ctx, "w-1")
		Eventually(s.uid).WithContext(ctx).WithArguments("w-2").Should(BeEmpty())
		Eventually(s.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionConverged).Should(And(
			HavePrefix("False Converging: "), ContainSubstring("w-2: its pod "+lost.UID()+" is gone, but holds Lease \"swarm-worker-w-2\""),
			HaveSuffix("it is still renewed")))
		moved := ContainElement(BeElementOf(held))
		waiting := func(g Gomega) {
			g.Expect(s.listedJobs(ctx, "w-0", "w-1")).NotTo(moved, "w-2 is alive, and has them")
			g.Expect(successor.RunningJobs()).To(BeEmpty(), "the former w-1 is alive")
		}
		Consistently(waiting).WithTimeout(leaseSilence + 2*time.Second).Should(Succeed())
		Expect(lost.RunningJobs()).To(Equal(held))
		Expect(former.RunningJobs()).To(Equal(heldBefore))
		stopOperator()
		startOperator()
		Consistently(waiting).WithTimeout(leaseSilence+2*time.Second).Should(Succeed(), "the next leader looks, too")

		former.SetDisconnected(true)
		lost.Kill()
		died := time.Now()
		Eventually(func() []string { return s.listedJobs(ctx, "w-0", "w-1") }).Should(ContainElements(held))
		// Its last renewal may have been just before, and up to a third of its time ago.
		Expect(time.Since(died)).To(BeNumerically(">", leaseSilence-4*time.Second))
		s.awaitSettled(ctx)
		Eventually(successor.RunningJobs).Should(Equal(heldBefore))
		Expect(former.RunningJobs()).To(BeEmpty())
		renamed.awaitSettled(ctx)
		former.Kill()
	})

	It("have stopped before others get their jobs, when they cannot renew it", func(ctx SpecContext) {
		s := newLeasedPool(ctx, 3, jobsNamed("a b c d e f g h i"))
		held := s.lists(ctx)["w-2"]
		lost := s.worker("w-2")
		lost.OutlivePod()
		s.scale(ctx, 2)
		Eventually(s.uid).WithContext(ctx).WithArguments("w-2").Should(BeEmpty())
		lost.SetDisconnected(true)
		Eventually(lost.RunningJobs).WithContext(ctx).Should(BeEmpty())
		s.awaitSettled(ctx)
		Expect(s.listedJobs(ctx, "w-0", "w-1")).To(ContainElements(held))
		// Use the times of the events, not of these checks, which depend on the machine.
		renewed := s.lease(ctx, "w-2").Spec.RenewTime.Time
		for _, job := range held {
			stop, start := s.jobMove(job, lost)
			Expect(stop.Time).To(BeTemporally("<", start.Time), "%s, %s", stop, start)
			Expect(start.Time).To(BeTemporally(">", renewed.Add(leaseSilence)),
				"the Lease was renewed at %s, and others wait for its time and the margin: %s", renewed, start)
		}
		lost.SetDisconnected(false)
		// It tries to renew its Lease three times in that.
		Consistently(lost.RunningJobs).WithTimeout(leaseTime).Should(BeEmpty(), "its pod is gone: it does not come back")
		lost.Kill()
	})

	It("give it back when they are asked to stop, and start at once in a new pod", func(ctx SpecContext) {
		s := newLeasedPool(ctx, 2, jobsNamed("a b c d"))
		former, held := s.worker("w-0"), s.lease(ctx, "w-0")
		Expect(api.Delete(ctx, s.pod(ctx, "w-0"))).To(Succeed())
		Eventually(former.RunningJobs).Should(BeEmpty())
		begun := time.Now()
		Eventually(func() bool {
			next := workers.Worker(s.namespace, "w-0")
			return next != nil && next.UID() != former.UID() && len(next.RunningJobs()) == 2
		}).Should(BeTrue())
		AddReportEntry("a worker runs in a new pod after", ReportEntryVisibilityAlways, time.Since(begun).Round(time.Millisecond).String())
		Expect(s.lease(ctx, "w-0").UID).NotTo(Equal(held.UID), "a Lease that is given back is deleted; one that has expired is taken over")
		s.awaitSettled(ctx)
	})
})

var _ = Describe("Workers without a Lease", func() {
	It("lose their jobs with their pod", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 3, jobsNamed("a b c d e f"))
		held := s.lists(ctx)["w-2"]
		s.scale(ctx, 2)
		Eventually(func() []string { return s.listedJobs(ctx, "w-0", "w-1") }).Should(ContainElements(held))
		s.awaitSettled(ctx)
	})
})

package hostile

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	// A median below floor does not count as latency: noise of the machine must not decide.
	latencyFloor = 150 * time.Millisecond
	// moreMemory is how much the resident set may grow in bytes.
	moreMemory = 50e6
)

// The order matters: the first spec measures the baseline, and the last ones check what happened in all of them.
var _ = Describe("Beside a hostile tenant", Ordered, ContinueOnFailure, Serial, func() {
	var s *environment
	var began leaderTerm
	var quiet time.Duration
	var quietMemory int64
	medians, memory := map[string]time.Duration{}, map[string]int64{}

	BeforeAll(func(ctx SpecContext) {
		s = newEnvironment(ctx)
		Expect(s.work(ctx, "warm", s.honest...)).NotTo(BeEmpty())
		watched := s.leader.watchMemory()
		quiet = share(s.work(ctx, "quiet", s.honest...), 50)
		quietMemory = watched()
		s.createHeldTasks(ctx)
		var err error
		began, err = s.leader.readTerm(ctx)
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("honest swarms finish all tasks in spite of", func(ctx SpecContext, name string, attacks ...string) {
		watched, spent := s.leader.watchMemory(), s.leader.watchProcessor()
		s.runUnderAttack(ctx, func() { medians[name] = share(s.work(ctx, name, s.honest...), 50) }, attacks...)
		memory[name] = watched()
		AddReportEntry("memory of the leader", ReportEntryVisibilityAlways, fmt.Sprintf("%d MB, quiet %d MB", memory[name]/1e6, quietMemory/1e6))
		AddReportEntry("processor time", ReportEntryVisibilityAlways, spent())
	},
		Entry("hostile programs in agents", "agents", "agents"),
		Entry("posts to the webhook", "posts", "posts"),
		Entry("floods of connections and of bad tokens", "connections", "connections"),
		Entry("floods of objects, annotations and statuses", "objects", "objects"),
		Entry("all of that at the same time", "everything", "agents", "posts", "connections", "objects"),
	)

	It("[X03/none-lost] every honest task was completed by one attempt, and says nothing that a hostile program has said",
		func(ctx SpecContext) {
			s.releaseHeldTasks()
			Eventually(unfinished).WithContext(ctx).WithArguments(s.honest[0].Namespace, "held").Should(BeEmpty())
			s.expectCompleted(ctx)
			s.expectNothingHostile(ctx)
		})

	// This is a coarse bound, and not [X03/latency]: most quiet medians are far below the floor, and the attacks do not come together.
	It("honest tasks do not wait for hostile ones", func(ctx SpecContext) {
		quiet = max(quiet, share(s.work(ctx, "afterwards", s.honest...), 50))
		for name, median := range medians {
			Expect(median).To(BeNumerically("<=", 2*max(quiet, latencyFloor)), name)
		}
	})

	It("[X03/memory] the memory of the leader stays within 50 MB of a quiet cluster", func() {
		for name, most := range memory {
			Expect(most).To(BeNumerically("<=", quietMemory+moreMemory), name)
		}
	})

	It("goes on with the pool of the tenant, whatever numbers were written into it", func(ctx SpecContext) {
		pool := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenantNamespace, Name: "pool"}}
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
			pool.Spec.Jobs = append(pool.Spec.Jobs[:2:2], v1alpha1.Job{Name: "after-the-attack"})
			g.Expect(api.Update(ctx, pool)).To(Succeed())
		}).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega) {
			now := &v1alpha1.WorkerPool{}
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(pool), now)).To(Succeed())
			g.Expect(now.Status.ObservedGeneration).To(Equal(pool.Generation))
			g.Expect(now.Status.Jobs).To(BeEquivalentTo(3))
		}).WithContext(ctx).Should(Succeed())
	})

	It("the namespace of the tenant can be deleted while its agents name attempts that they do not run", func(ctx SpecContext) {
		hostile := s.startAttackers([]string{"agents"})
		defer func() { Expect(hostile.stop()).To(Succeed()) }()
		Eventually(hostile.count).WithContext(ctx).WithArguments("messages of hostile programs").Should(BeNumerically(">=", 500))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.tenantNamespace}}
		Expect(api.Delete(ctx, namespace)).To(Succeed())
		Eventually(checkDeleted).WithContext(ctx).WithArguments(namespace).WithTimeout(2 * time.Minute).Should(MatchError(apierrors.IsNotFound,
			"NotFound"))
	})

	It("[X03/same-leader] the leader and its term are those of before, and so are the terms of honest objects", func(ctx SpecContext) {
		Expect(s.leader.readTerm(ctx)).To(Equal(began))
		s.expectTerm(ctx, began.stored)
		Expect(s.leader.session.ExitCode()).To(Equal(-1), "the leader runs")
	})
})

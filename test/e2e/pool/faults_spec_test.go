package pool

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
)

// awaitVersion waits until something newer was published.
func awaitVersion(ctx context.Context, pool *v1alpha1.WorkerPool, above int64) {
	GinkgoHelper()
	Eventually(func() int64 {
		all := env.recorder.versionsOf(pool.ConfigName())
		return all[len(all)-1].Version
	}).WithContext(ctx).Should(BeNumerically(">", above))
}

var _ = Describe("A pool through faults", func() {
	BeforeEach(chaos.SkipOnForeignCluster)

	It("drains a worker before it shrinks, also one that is killed between stop and acknowledgement [P21]", func(ctx SpecContext) {
		pool := poolOf("shrinking", "a", "b", "free", "stuck")
		create(ctx, statefulSet("shrinking", 2, stuckContainer()), pool)
		before := awaitSettled(ctx, pool, 2, 4)
		Expect(before.Workloads["shrinking-1"].Jobs).To(HaveExactElements("free", "stuck"))
		scaleTo(ctx, "workerpool/shrinking", "1")
		Eventually(func(g Gomega) {
			lines, err := env.readJournal(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(hasEntry(lines, "stop", "shrinking-1", "free")).To(BeTrue())
		}).WithContext(ctx).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(takeSnapshot(ctx, g, pool).Workloads["shrinking-0"].Jobs).To(HaveExactElements("a", "b"), "the other job may be held still")
			g.Expect(*current(ctx, statefulSetNamed("shrinking")).Spec.Replicas).To(BeEquivalentTo(2), "it is needed still")
		}).WithContext(ctx).WithTimeout(quietPeriod).Should(Succeed())

		cluster.PodProcesses(ctx, env.namespace, "shrinking-1").Kill("probe")
		after := awaitSettled(ctx, pool, 1, 4)
		Expect(after.Workloads["shrinking-0"].Jobs).To(ConsistOf("a", "b", "free", "stuck"))
		expectUntouched(ctx, before, after)
		expectDrainOrder(ctx, "shrinking", "shrinking-1")
		env.expectSingleOwners(ctx)
	})

	It("goes on where the leader was killed in the middle of a hand-over [P21]", func(ctx SpecContext) {
		pool := poolOf("headless", numberedNames("job", 8)...)
		create(ctx, statefulSet("headless", 2, idleContainer()), pool)
		before := awaitSettled(ctx, pool, 2, 8)
		silent := cluster.PodProcesses(ctx, env.namespace, "headless-1")
		silent.Freeze()
		DeferCleanup(silent.Unfreeze)
		scaleTo(ctx, "sts/headless", "4")
		awaitVersion(ctx, pool, before.Version)
		cluster.KillLeader(ctx)
		silent.Unfreeze()

		after := awaitSettled(ctx, pool, 4, 8)
		Expect(countMoved(before, after)).To(Equal(4))
		expectUntouched(ctx, before, after)
		env.expectSingleOwners(ctx)
		cluster.AwaitOperator(ctx)
	})

	It("keeps everything where it is when a pod is deleted by force, and goes on when the API server is restarted while it scales [P21]",
		Serial, func(ctx SpecContext) {
			pool := poolOf("patient", numberedNames("job", 8)...)
			create(ctx, statefulSet("patient", 2, idleContainer()), pool)
			before := awaitSettled(ctx, pool, 2, 8)
			Expect(kubectl(ctx, "delete", "pod", "--namespace", env.namespace, "patient-1", "--force", "--grace-period=0")).
				To(ContainSubstring("deleted"))
			Eventually(func(g Gomega) {
				g.Expect(takeSnapshot(ctx, g, pool).uids["patient-1"]).NotTo(Or(BeEmpty(), Equal(before.uids["patient-1"])))
			}).WithContext(ctx).Should(Succeed())
			forced := awaitSettled(ctx, pool, 2, 8)
			Expect(forced.text).To(Equal(before.text))

			scaleTo(ctx, "sts/patient", "4")
			chaos.Devcluster(ctx, "restart", "kube-apiserver")
			after := awaitSettled(ctx, pool, 4, 8)
			expectUntouched(ctx, forced, after)
			env.expectSingleOwners(ctx, before.uids["patient-1"])
			cluster.AwaitOperator(ctx)
		})

	It("keeps the jobs of a quarantined pod while that pod lives, and gives them to others after it was deleted [P21]", func(ctx SpecContext) {
		workload, pool := deployment("ward", 2), poolOf("ward", numberedNames("stuck", 4)...)
		workload.Spec.Template.Spec = worker(stuckContainer(), "ward") // it does not stop its jobs
		pool.Spec.Workers.Kind = v1alpha1.WorkloadDeployment
		create(ctx, workload, pool)
		before := awaitSettled(ctx, pool, 2, 4)
		patient := slices.Sorted(maps.Keys(before.uids))[0]
		held := before.Workloads[patient].Jobs
		Expect(held).NotTo(BeEmpty())

		Expect(kubectl(ctx, "label", "pod", "--namespace", env.namespace, patient, "app-")).To(ContainSubstring("unlabeled"))
		replaced := And(HaveLen(2), Not(HaveKey(patient)))
		Eventually(env.pods).WithContext(ctx).WithArguments("ward").Should(replaced, "another pod takes its place")
		Eventually(condition(ctx, pool, v1alpha1.ConditionConverged)).WithContext(ctx).Should(SatisfyAll(
			HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring(patient))))
		Consistently(func(g Gomega) { expectHeld(ctx, g, pool, patient, held) }).WithContext(ctx).WithTimeout(quick).Should(Succeed())

		Expect(kubectl(ctx, "delete", "pod", "--namespace", env.namespace, patient)).To(ContainSubstring("deleted"))
		after := awaitSettled(ctx, pool, 2, 4)
		Expect(after.uids).NotTo(HaveKey(patient))
		env.expectSingleOwners(ctx)
	})

	It("moves no job when the operator is restarted, and restores a config that was deleted while it was away [P02/across-restarts, P02/config-map-deleted, P11/survives-restart, P20/restart-moves-no-job]", Serial, func(ctx SpecContext) {
		pool := poolOf("steady", streams()...)
		create(ctx, statefulSet("steady", 2, idleContainer()), pool)
		before := awaitSettled(ctx, pool, 2, 27)
		Expect(kubectl(ctx, "rollout", "restart", "--namespace", system, "deployment/swarm-operator")).To(ContainSubstring("restarted"))
		Expect(kubectl(ctx, "rollout", "status", "--namespace", system, "deployment/swarm-operator", "--timeout=90s")).
			To(ContainSubstring("successfully rolled out"))
		cluster.AwaitOperator(ctx)

		DeferCleanup(func(ctx SpecContext) { cluster.ScaleOperator(ctx, 2) })
		cluster.ScaleOperator(ctx, 0)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "steady-config"}}
		Expect(parseConfig(current(ctx, config)).text).To(Equal(before.text), "after a rolling restart")
		Expect(api.Delete(ctx, config)).To(Succeed())
		cluster.ScaleOperator(ctx, 2)
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(config), config)).To(Succeed())
			g.Expect(parseConfig(config).text).To(Equal(before.text), "from the stored revision, to the byte")
		}).WithContext(ctx).Should(Succeed())
		after := awaitSettled(ctx, pool, 2, 27)
		Expect(after.text).To(Equal(before.text))
		Expect(expectUntouched(ctx, before, after)).To(BeZero())
		Expect(stops(env.journal(ctx))).To(BeEmpty())
	})
})

// expectHeld checks by the journal that a worker runs its jobs, and that no other worker's list has them.
func expectHeld(ctx context.Context, g Gomega, pool *v1alpha1.WorkerPool, holder string, jobs []string) {
	running, err := env.running(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	for _, job := range jobs {
		g.Expect(running[job].Worker).To(Equal(holder), job)
		for worker, work := range takeSnapshot(ctx, g, pool).Workloads {
			g.Expect(worker == holder || !slices.Contains(work.Jobs, job)).To(BeTrue(), "%s is granted to %s", job, worker)
		}
	}
}

// expectDrainOrder checks the order of a scale-in: the list of the last worker without jobs, its acknowledgement, then fewer replicas.
func expectDrainOrder(ctx context.Context, name, last string) {
	GinkgoHelper()
	scales, emptied := env.recorder.scaled(name), configVersion{}
	for _, edition := range env.recorder.versionsOf(name + "-config") {
		if work, there := edition.Workloads[last]; there && len(work.Jobs) == 0 {
			emptied = edition
			break
		}
	}
	Expect(emptied.Version).NotTo(BeZero(), "no list without jobs was published for %s", last)
	shrunk := scales[len(scales)-1]
	Expect(shrunk.number).To(BeNumerically(">", emptied.number))
	for _, said := range env.journal(ctx) {
		if said.Event == "acknowledge" && said.Worker == last && said.Version == emptied.Version {
			Expect(said.Time).To(BeTemporally("<", shrunk.at))
			return
		}
	}
	Fail(last + " has acknowledged no list without jobs")
}

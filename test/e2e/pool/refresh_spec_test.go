package pool

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("The refresh of workers", func() {
	It("leaves every pod alone under HotReload and replaces only those with another list under Restart [P06, P07/restart, P07/hot-reload]",
		func(ctx SpecContext) {
			hot, cold := poolOf("hot", numberedNames("hot", 7)...), poolOf("cold", numberedNames("cold", 5)...)
			hot.Spec.Refresh.Policy, cold.Spec.Refresh.Policy = v1alpha1.RefreshHotReload, v1alpha1.RefreshRestart
			create(ctx, statefulSet("hot", 2, idleContainer()), hot, statefulSet("cold", 2, idleContainer()), cold)
			hotBefore, coldBefore := awaitSettled(ctx, hot, 2, 7), awaitSettled(ctx, cold, 2, 5)

			scaleTo(ctx, "sts/hot", "3")
			scaleTo(ctx, "sts/cold", "3")
			hotAfter := awaitSettled(ctx, hot, 3, 7)
			for worker, uid := range hotBefore.uids {
				Expect(hotAfter.uids[worker]).To(Equal(uid), "of worker %s", worker)
			}
			lines := env.journal(ctx)
			for job, owner := range hotAfter.owners() {
				Expect(hasEntry(lines, "start", owner, job)).To(BeTrue(), "%s was given to %s", job, owner)
				if was := hotBefore.owners()[job]; was != owner {
					Expect(hasEntry(lines, "stop", was, job)).To(BeTrue(), "%s was taken from %s", job, was)
				}
			}

			coldAfter := awaitSettled(ctx, cold, 3, 5)
			Expect(expectUntouched(ctx, coldBefore, coldAfter)).To(Equal(1), "the worker with three of the five jobs loses one")
			for worker, work := range coldBefore.Workloads {
				if !slices.Equal(work.Jobs, coldAfter.Workloads[worker].Jobs) {
					Expect(coldAfter.uids[worker]).NotTo(Equal(coldBefore.uids[worker]), "the list of %s has changed", worker)
				}
			}
			env.expectSingleOwners(ctx)
		})

	It("replaces a worker that does not acknowledge in time under Auto, and gives its jobs to no other before [P08/silent-worker]",
		func(ctx SpecContext) {
			pool := poolOf("auto", numberedNames("stuck", 4)...)
			pool.Spec.Refresh.DeadlineSeconds = 3
			create(ctx, statefulSet("auto", 2, stuckContainer()), pool)
			before := awaitSettled(ctx, pool, 2, 4)
			scaleTo(ctx, "sts/auto", "3")
			after := awaitSettled(ctx, pool, 3, 4)
			replaced := 0
			for worker, uid := range before.uids {
				if after.uids[worker] != uid {
					replaced++
				}
			}
			Expect(replaced).To(Equal(1), "the one that lost a job")
			Expect(expectUntouched(ctx, before, after)).To(Equal(1))
			Expect(kubectl(ctx, "get", "events", "--namespace", env.namespace, "--field-selector", "reason=Replacing")).
				To(ContainSubstring("not acknowledged"))
			env.expectSingleOwners(ctx)
		})

	It("does not believe who names another version or another pod, and says who [P08/acknowledged-by-uid, P08/converged-only-then, P08/lying-worker]", func(ctx SpecContext) {
		lies := map[string]string{
			"boaster":  `{"worker": "$(POD_NAME)", "podUID": "$(POD_UID)", "version": 99, "config": 99}`,
			"impostor": `{"worker": "$(POD_NAME)", "podUID": "00000000-0000-0000-0000-000000000000", "version": 1, "config": 1}`,
			"other":    `{"worker": "another", "podUID": "$(POD_UID)", "version": 1, "config": 1}`,
		}
		truth := poolOf("honest", "honest")
		create(ctx, statefulSet("honest", 1, lyingContainer(`{"worker": "$(POD_NAME)", "podUID": "$(POD_UID)", "version": 1, "config": 1}`)),
			truth)
		for name, lie := range lies {
			pool := poolOf(name, name)
			pool.Spec.Refresh.Policy = v1alpha1.RefreshHotReload
			create(ctx, statefulSet(name, 1, lyingContainer(lie)), pool)
		}
		Eventually(condition(ctx, truth, v1alpha1.ConditionConverged)).WithContext(ctx).Should(HaveField("Status", metav1.ConditionTrue),
			"that is all it takes")
		for name := range lies {
			blames := SatisfyAll(HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring(name+"-0")))
			Eventually(condition(ctx, poolOf(name), v1alpha1.ConditionConverged)).WithContext(ctx).Should(blames)
			Consistently(condition(ctx, poolOf(name), v1alpha1.ConditionConverged)).WithContext(ctx).WithTimeout(quietPeriod).Should(blames)
		}
	})
})

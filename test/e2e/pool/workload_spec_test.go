package pool

import (
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// quietPeriod is how long the suite watches something that must not change.
const quietPeriod = time.Second

var _ = Describe("A workload", func() {
	It("becomes a pool by a label, takes its jobs from a ConfigMap, and is none without it [P04/label-added, P04/label-removed, P04/config-map-stays, P04/event, P01, P17]", func(ctx SpecContext) {
		workload := statefulSet("swarm-worker", 2, idleContainer())
		jobs := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "swarm-controller-config"},
			Data:       map[string]string{"config.yml": "jobs:\n- " + strings.Join(numberedNames("stream", 4), "\n- ") + "\n"},
		}
		create(ctx, workload, jobs)
		for _, name := range []string{"swarm-worker-0", "swarm-worker-1"} {
			Eventually(env.health).WithContext(ctx).WithArguments(name).Should(HaveField("Status", "waiting"), "there is no list")
		}
		Expect(kubectl(ctx, "label", "--namespace", env.namespace, "sts/swarm-worker", v1alpha1.LabelPool+"=streams")).
			To(ContainSubstring("labeled"))
		pool := poolOf("streams")
		Eventually(api.Get).WithContext(ctx).WithArguments(client.ObjectKeyFromObject(pool), pool).Should(Succeed())
		before := awaitSettled(ctx, pool, 2, 4)
		expectNeverRestarted(ctx, "swarm-worker")

		edit(ctx, jobs, func(c *corev1.ConfigMap) { c.Data["config.yml"] = strings.Join(numberedNames("stream", 6), "\n") })
		after := awaitSettled(ctx, pool, 2, 6)
		Expect(countMoved(before, after)).To(BeZero())
		expectUntouched(ctx, before, after)

		Expect(kubectl(ctx, "label", "--namespace", env.namespace, "sts/swarm-worker", v1alpha1.LabelPool+"-")).To(ContainSubstring("unlabeled"))
		Eventually(api.Get).WithContext(ctx).WithArguments(client.ObjectKeyFromObject(pool), pool).Should(Satisfy(apierrors.IsNotFound))
		config := current(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "swarm-worker-config"}})
		Expect(parseConfig(config).text).To(Equal(after.text), "it is unchanged")
		Eventually(kubectl).WithContext(ctx).WithArguments("get", "events", "--namespace", env.namespace, "--field-selector",
			"reason=PoolRemoved,involvedObject.kind=StatefulSet").
			Should(ContainSubstring("swarm-worker-config"))
		env.expectSingleOwners(ctx)
	})

	It("may be a Deployment, whose pods hold slots that outlive them [P14/stable-slot, P14/freed-slot-taken]", func(ctx SpecContext) {
		workload, pool := deployment("crowd", 3), poolOf("crowd", numberedNames("job", 9)...)
		pool.Spec.Workers.Kind = v1alpha1.WorkloadDeployment
		create(ctx, workload, pool)
		before := awaitSettled(ctx, pool, 3, 9)
		Expect(before.jobsBySlot()).To(And(HaveLen(3), HaveKey("0"), HaveKey("1"), HaveKey("2")))
		kept := revisions(ctx, pool)

		Expect(kubectl(ctx, "rollout", "restart", "--namespace", env.namespace, "deployment/crowd")).To(ContainSubstring("restarted"))
		Expect(kubectl(ctx, "rollout", "status", "--namespace", env.namespace, "deployment/crowd", "--timeout=90s")).
			To(ContainSubstring("successfully rolled out"))
		after := awaitSettled(ctx, pool, 3, 9)
		Expect(after.jobsBySlot()).To(Equal(before.jobsBySlot()), "nothing has moved")
		for pod := range before.uids {
			Expect(after.uids).NotTo(HaveKey(pod), "all are new")
		}
		Expect(revisions(ctx, pool)).To(Equal(kept))

		victim := slices.Sorted(maps.Keys(after.uids))[0]
		Expect(kubectl(ctx, "delete", "pod", "--namespace", env.namespace, victim)).To(ContainSubstring("deleted"))
		healed := awaitSettled(ctx, pool, 3, 9)
		Expect(healed.uids).NotTo(HaveKey(victim))
		Expect(healed.jobsBySlot()).To(Equal(before.jobsBySlot()), "another pod has slot %s", after.slots[victim])
		Expect(revisions(ctx, pool)).To(Equal(kept))
		delete(after.Workloads, victim)
		Expect(expectUntouched(ctx, after, healed)).To(BeZero(), "of the others")
		env.expectSingleOwners(ctx)
	})

	It("gives a dedicated job a worker of its own, and names the one that finds none [P13/exclusive, P13/infeasible]", func(ctx SpecContext) {
		pool := poolOf("mixed", numberedNames("shared", 4)...)
		pool.Spec.Jobs = append(pool.Spec.Jobs, v1alpha1.Job{Name: "vip", QoS: v1alpha1.JobDedicated})
		create(ctx, statefulSet("mixed", 3, idleContainer()), pool)
		before := awaitSettled(ctx, pool, 3, 5)
		Expect(before.Workloads[before.owners()["vip"]].Jobs).To(HaveExactElements("vip"))

		edit(ctx, pool, func(p *v1alpha1.WorkerPool) {
			p.Spec.Jobs = append(p.Spec.Jobs, v1alpha1.Job{Name: "vip-2", QoS: v1alpha1.JobDedicated},
				v1alpha1.Job{Name: "vip-3", QoS: v1alpha1.JobDedicated})
		})
		Eventually(condition(ctx, pool, v1alpha1.ConditionDegraded)).WithContext(ctx).Should(SatisfyAll(
			HaveField("Status", metav1.ConditionTrue), HaveField("Reason", string(v1alpha1.ReasonJobsUnassigned)),
			HaveField("Message", ContainSubstring("vip-3"))))
		after := awaitSettled(ctx, pool, 3, 7)
		Expect(pool.Status.Unassigned).To(HaveExactElements("vip-3"))
		Expect(after.owners()["vip"]).To(Equal(before.owners()["vip"]))
		for _, job := range []string{"vip", "vip-2"} {
			Expect(after.Workloads[after.owners()[job]].Jobs).To(HaveExactElements(job))
		}
		env.expectSingleOwners(ctx)
	})
})

// jobsBySlot are the jobs of each slot.
func (v poolSnapshot) jobsBySlot() map[string][]string {
	jobs := map[string][]string{}
	for pod, slot := range v.slots {
		jobs[slot] = v.Workloads[pod].Jobs
	}
	return jobs
}

// revisions are the revisions that are kept of a pool.
func revisions(ctx SpecContext, pool *v1alpha1.WorkerPool) []string {
	GinkgoHelper()
	list := &appsv1.ControllerRevisionList{}
	Expect(api.List(ctx, list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name})).To(Succeed())
	var names []string
	for _, revision := range list.Items {
		names = append(names, revision.Name)
	}
	slices.Sort(names)
	return names
}

// expectNeverRestarted checks that no container of a workload has ended.
func expectNeverRestarted(ctx SpecContext, workload string) {
	GinkgoHelper()
	pods, err := env.pods(ctx, workload)
	Expect(err).NotTo(HaveOccurred())
	for name, pod := range pods {
		Expect(pod.Status.ContainerStatuses).To(HaveExactElements(HaveField("RestartCount", BeZero())), name)
	}
}

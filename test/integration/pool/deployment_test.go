package pool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
)

// deployment is a pool over the pods of a Deployment, which the pool scales. Its workers are Ready before the pool is created, as in
// statefulSet.
func deployment(ctx context.Context, size int32, jobs string) *environment {
	GinkgoHelper()
	s := newEnvironment(ctx)
	labels := map[string]string{"app": workload}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload},
		Spec: appsv1.DeploymentSpec{Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: fakeworkers.Template(labels, config)},
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	Eventually(func() (int32, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(object), object)
		return object.Status.ReadyReplicas, err
	}).Should(Equal(size))
	s.create(ctx, jobsNamed(jobs), func(spec *v1alpha1.WorkerPoolSpec) {
		spec.Workers.Kind, spec.Replicas = v1alpha1.WorkloadDeployment, &size
	})
	s.awaitSettled(ctx)
	return s
}

// slots returns the pods that are not terminating, by slot.
func (s *environment) slots(ctx context.Context) (map[string]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(s.namespace), client.HasLabels{v1alpha1.LabelSlot})
	slots := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			slots[pod.Labels[v1alpha1.LabelSlot]] = pod
		}
	}
	return slots, err
}

// jobsBySlot are the running jobs, by slot.
func (s *environment) jobsBySlot(ctx context.Context) (map[string][]string, error) {
	slots, err := s.slots(ctx)
	held := map[string][]string{}
	for slot, pod := range slots {
		held[slot] = workers.Journal(s.namespace).Running()[pod.Name]
	}
	return held, err
}

// isGranted reports whether a job is on the published list of another worker than one.
func (s *environment) isGranted(ctx context.Context, job, except string) (bool, error) {
	file, err := s.file(ctx)
	for worker, jobs := range jobsByWorker(file) {
		if worker != except && slices.Contains(jobs, job) {
			return true, err
		}
	}
	return false, err
}

var _ = Describe("A pool over a Deployment", func() {
	It("[P14/stable-slot, P14/freed-slot-taken] gives the slot of a pod that is gone, and its jobs, to the one that takes its place",
		func(ctx SpecContext) {
			s := deployment(ctx, 3, "a b c d e f")
			want := map[string][]string{"0": {"a", "b"}, "1": {"c", "d"}, "2": {"e", "f"}}
			Eventually(s.jobsBySlot).WithContext(ctx).Should(Equal(want))
			before, err := s.slots(ctx)
			Expect(err).NotTo(HaveOccurred())
			victim := before["1"]
			Expect(api.Delete(ctx, &victim)).To(Succeed())
			Eventually(func(g Gomega) {
				now, err := s.slots(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(slices.Sorted(maps.Keys(now))).To(Equal([]string{"0", "1", "2"}))
				g.Expect(now["1"].UID).NotTo(Equal(victim.UID))
				g.Expect(now["0"].UID).To(Equal(before["0"].UID))
				g.Expect(now["2"].UID).To(Equal(before["2"].UID))
			}).Should(Succeed())
			Eventually(s.jobsBySlot).WithContext(ctx).Should(Equal(want))
			s.awaitSettled(ctx)
			Expect(workers.Journal(s.namespace).Starts()).To(Equal(map[string]int{"a": 1, "b": 1, "c": 2, "d": 2, "e": 1, "f": 1}),
				"nothing else has moved")
		})

	It("[P14/stable-slot] is scaled in by deleting the pod that was drained, and no other", func(ctx SpecContext) {
		s := deployment(ctx, 3, "a b c d e f")
		before, err := s.slots(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(HaveLen(3))
		leaving := before["2"]
		drained := s.worker(leaving.Name)
		drained.PauseFileUpdates()
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Replicas = new(int32(2)) })
		s.waiting(ctx, leaving.Name)
		Consistently(s.slots).WithContext(ctx).Should(HaveLen(3), "no pod goes that may hold a job")
		drained.ResumeFileUpdates()
		Eventually(s.slots).WithContext(ctx).Should(HaveLen(2))
		now, err := s.slots(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, slot := range []string{"0", "1"} {
			Expect(now[slot].UID).To(Equal(before[slot].UID), fmt.Sprintf("slot %s", slot))
		}
		s.awaitSettled(ctx)
		Expect(workers.Journal(s.namespace).Running()).To(And(HaveLen(2), HaveEach(HaveLen(3))))
	})

	It("gives out nothing that a pod holds which was taken out of it by a label, until that pod has given it up", func(ctx SpecContext) {
		s := deployment(ctx, 2, "a b c d")
		before, err := s.slots(ctx)
		Expect(err).NotTo(HaveOccurred())
		released := before["0"]
		holder := s.worker(released.Name)
		holder.PauseFileUpdates()
		Expect(api.Patch(ctx, &released, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":null}}}`)))).To(Succeed())
		s.waiting(ctx, released.Name)
		Expect(s.conditionText(ctx, v1alpha1.ConditionConverged)).To(ContainSubstring(`Deployment "w" does not control it`))
		Consistently(s.isGranted).WithContext(ctx).WithArguments("a", released.Name).Should(BeFalse(), "the released pod may hold it")
		holder.ResumeFileUpdates()
		Eventually(s.isGranted).WithContext(ctx).WithArguments("a", released.Name).Should(BeTrue())
		s.awaitSettled(ctx)
		Expect(workers.Journal(s.namespace).Starts()).To(Equal(map[string]int{"a": 2, "b": 2, "c": 1, "d": 1}))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(&released), &released)).To(Succeed(), "the operator does not evict it")
		Expect(released.DeletionTimestamp).To(BeNil())
		Expect(api.Delete(ctx, &released)).To(Succeed())
	})

	It("[P14/stable-slot] moves nothing that need not move in a rolling update", func(ctx SpecContext) {
		s := deployment(ctx, 3, "a b c d e f")
		want := map[string][]string{"0": {"a", "b"}, "1": {"c", "d"}, "2": {"e", "f"}}
		Eventually(s.jobsBySlot).WithContext(ctx).Should(Equal(want))
		before, err := s.slots(ctx)
		Expect(err).NotTo(HaveOccurred())
		change(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload}}, func(object *appsv1.Deployment) {
			object.Spec.Template.Spec.Containers[0].Image = "example.test/worker:2"
		})
		Eventually(func(g Gomega) {
			now, err := s.slots(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(slices.Sorted(maps.Keys(now))).To(Equal([]string{"0", "1", "2"}))
			for slot, pod := range now {
				g.Expect(pod.UID).NotTo(Equal(before[slot].UID))
			}
		}).Should(Succeed())
		Eventually(s.jobsBySlot).WithContext(ctx).Should(Equal(want))
		s.awaitSettled(ctx)
	})
})

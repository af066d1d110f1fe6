package pool

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("A pool of 150 workers", func() {
	It("[P10/sizes, P10/members] lists those that need attention, and at most 100", func(ctx SpecContext) {
		const size = 150
		s := newEnvironment(ctx)
		labels := map[string]string{"app": workload}
		Expect(api.Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(size)), PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: workload,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "example.test/worker:1"}}}},
			},
		})).To(Succeed())
		var names []string
		for n := range 2 * size {
			names = append(names, fmt.Sprintf("job-%03d", n))
		}
		s.create(ctx, nil, func(spec *v1alpha1.WorkerPoolSpec) {
			for _, name := range names {
				spec.Jobs = append(spec.Jobs, v1alpha1.Job{Name: name})
			}
			spec.Refresh = v1alpha1.PoolRefresh{DeadlineSeconds: 1, Policy: v1alpha1.RefreshHotReload} // there is no worker to ask
		})
		s.awaitWorkers(ctx, size)
		Eventually(s.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionConverged).Should(HavePrefix("True"))
		Expect(s.pool.Status).To(And(HaveField("ExpectedSize", BeEquivalentTo(size)), HaveField("Jobs", BeEquivalentTo(2*size))))
		Expect(s.pool.Status.Workers).To(BeEmpty(), "no worker needs attention")

		few := []string{"w-7", "w-77", "w-149"}
		s.readiness(ctx, corev1.ConditionFalse, few...)
		Eventually(s.statusWorkers).WithContext(ctx).Should(Equal(few))
		Expect(s.pool.Status.Workers).To(HaveEach(And(HaveField("State", v1alpha1.WorkerNotReady), HaveField("Jobs", BeEquivalentTo(2)))))

		var many []string
		for n := range 120 {
			many = append(many, fmt.Sprintf("w-%d", n))
		}
		s.readiness(ctx, corev1.ConditionFalse, many...)
		s.awaitWorkers(ctx, size-121)
		Eventually(s.statusWorkers).WithContext(ctx).Should(Equal(many[:100]))
	})
})

// statusWorkers are the workers in status.
func (s *environment) statusWorkers(ctx context.Context) []string {
	_ = s.conditionText(ctx, v1alpha1.ConditionReady)
	var names []string
	for _, worker := range s.pool.Status.Workers {
		names = append(names, worker.Name)
	}
	return slices.Clip(names)
}

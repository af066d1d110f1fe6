package kubernetes

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Eviction", func() {
	It("is refused while the disruption budget is spent, and granted when it is not", func(ctx SpecContext) {
		create(ctx, httpServer().deployment("guarded", 2))
		victim := awaitServing(ctx, "guarded", 2)[0]
		budget := disruptionBudget("guarded", 2)
		create(ctx, budget)
		Eventually(allowedDisruptions).WithContext(ctx).WithArguments(budget).Should(BeZero())

		err := evict(ctx, &victim)
		Expect(err).To(Satisfy(apierrors.IsTooManyRequests), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("disruption budget")))
		Expect(fetch(ctx, &victim)).To(HaveField("DeletionTimestamp", BeNil()))

		before := client.MergeFrom(budget.DeepCopy())
		budget.Spec.MinAvailable = new(intstr.FromInt32(1))
		Expect(api.Patch(ctx, budget, before)).To(Succeed())
		Eventually(allowedDisruptions).WithContext(ctx).WithArguments(budget).Should(BeEquivalentTo(1))
		Expect(evict(ctx, &victim)).To(Succeed())
		Eventually(servingPods).WithContext(ctx).WithArguments("guarded").
			Should(And(HaveLen(2), HaveEach(HaveField("UID", Not(Equal(victim.UID))))), "another took its place")
	})
})

func disruptionBudget(app string, least int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector(app), MinAvailable: new(intstr.FromInt32(least))},
	}
}

// allowedDisruptions returns -1 until the controller has processed the budget: the API refuses every eviction until then.
func allowedDisruptions(ctx context.Context, budget *policyv1.PodDisruptionBudget) (int32, error) {
	stored, err := fetch(ctx, budget)
	if err != nil || stored.Status.ObservedGeneration < stored.Generation {
		return -1, err
	}
	return stored.Status.DisruptionsAllowed, nil
}

func evict(ctx context.Context, pod *corev1.Pod) error {
	return api.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
}

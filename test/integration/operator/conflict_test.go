package operator

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("An object of the user that has the name of a Swarm's", Serial, func() {
	It("is neither changed nor deleted, and the Swarm says what to do", func(ctx SpecContext) {
		ns := namespace(ctx, nil)
		own := objectAt(&corev1.Service{}, ns, "research")
		own.Spec = corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "web"}}
		Expect(api.Create(ctx, own)).To(Succeed())
		startOperator()
		swarm := sample(ctx, ns)
		Eventually(degradedMessage).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring(
			`Service "research" exists and does not belong to this Swarm: rename or delete it, give the Swarm another name, or let the Swarm take it over with the label swarm.io/swarm=research`))
		before := own.ResourceVersion
		Expect(api.Get(ctx, client.ObjectKeyFromObject(own), own)).To(Succeed())
		Expect(own.ResourceVersion).To(Equal(before))
		Expect(agents(ctx, ns)).To(BeEmpty())

		Expect(api.Delete(ctx, swarm)).To(Succeed())
		Eventually(func(ctx context.Context) bool { return isDeleted(ctx, swarm) }).WithContext(ctx).Should(BeTrue())
		Expect(isDeleted(ctx, own)).To(BeFalse())

		own.Labels = map[string]string{v1alpha1.LabelSwarm: "research"}
		Expect(api.Update(ctx, own)).To(Succeed())
		swarm = sample(ctx, ns)
		Eventually(agents).WithContext(ctx).WithArguments(ns).Should(HaveLen(6))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(own), own)).To(Succeed())
		Expect(metav1.GetControllerOf(own)).To(HaveValue(HaveField("UID", swarm.UID)))
	})
})

// degradedMessage is the message of a Swarm about what does not work.
func degradedMessage(ctx context.Context, swarm *v1alpha1.Swarm) (string, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
	condition := meta.FindStatusCondition(swarm.Status.Conditions, v1alpha1.ConditionDegraded)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return "", err
	}
	return condition.Message, err
}

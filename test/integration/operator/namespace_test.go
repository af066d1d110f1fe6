package operator

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("A namespace that is deleted", Serial, func() {
	const mine = "SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {team: mine}}"

	goes := func(ctx context.Context, ns string) {
		GinkgoHelper()
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
		Eventually(isDeleted).WithContext(ctx).WithArguments(object).Should(BeTrue())
	}
	held := func(ctx context.Context) (string, *v1alpha1.Swarm) {
		GinkgoHelper()
		ns := namespace(ctx, map[string]string{"team": "mine"})
		swarm := sample(ctx, ns)
		Eventually(agents).WithContext(ctx).WithArguments(ns).Should(HaveLen(6))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
		Expect(swarm.Finalizers).To(ConsistOf(v1alpha1.Finalizer))
		return ns, swarm
	}

	It("goes with a Swarm that is paused", func(ctx SpecContext) {
		startOperator(mine)
		ns, swarm := held(ctx)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"swarm.io/paused":"true"}}}`))
		Expect(api.Patch(ctx, swarm, patch)).To(Succeed())
		goes(ctx, ns)
	})

	It("goes when it is out of scope", func(ctx SpecContext) {
		startOperator(mine)
		ns, _ := held(ctx)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":null}}}`))
		Expect(api.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, patch)).To(Succeed())
		goes(ctx, ns)
	})

	It("goes when the operator is back", func(ctx SpecContext) {
		session := startOperator(mine)
		ns, swarm := held(ctx)
		Eventually(session.Terminate()).Should(gexec.Exit(0))
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())
		Eventually(func(ctx context.Context) (*metav1.Time, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
			return swarm.DeletionTimestamp, err
		}).WithContext(ctx).ShouldNot(BeNil())
		Consistently(isDeleted).WithContext(ctx).WithArguments(swarm).Should(BeFalse(), "the finalizer is there")
		startOperator(mine)
		goes(ctx, ns)
	})
})

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

	goes := func(ctx context.Context, in string) {
		GinkgoHelper()
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}
		Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
		Eventually(gone).WithContext(ctx).WithArguments(object).Should(BeTrue())
	}
	held := func(ctx context.Context) (string, *v1alpha1.Swarm) {
		GinkgoHelper()
		in := namespace(ctx, map[string]string{"team": "mine"})
		swarm := sample(ctx, in)
		Eventually(agents).WithContext(ctx).WithArguments(in).Should(HaveLen(6))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
		Expect(swarm.Finalizers).To(ConsistOf(v1alpha1.Finalizer))
		return in, swarm
	}

	It("goes with a Swarm that is paused", func(ctx SpecContext) {
		program(mine)
		in, swarm := held(ctx)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"swarm.io/paused":"true"}}}`))
		Expect(api.Patch(ctx, swarm, patch)).To(Succeed())
		goes(ctx, in)
	})

	It("goes when it is out of scope", func(ctx SpecContext) {
		program(mine)
		in, _ := held(ctx)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":null}}}`))
		Expect(api.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}, patch)).To(Succeed())
		goes(ctx, in)
	})

	It("goes when the operator is back", func(ctx SpecContext) {
		session := program(mine)
		in, swarm := held(ctx)
		Eventually(session.Terminate()).Should(gexec.Exit(0))
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}})).To(Succeed())
		Eventually(func(ctx context.Context) (*metav1.Time, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
			return swarm.DeletionTimestamp, err
		}).WithContext(ctx).ShouldNot(BeNil())
		Consistently(gone).WithContext(ctx).WithArguments(swarm).Should(BeFalse(), "the finalizer is there")
		program(mine)
		goes(ctx, in)
	})
})

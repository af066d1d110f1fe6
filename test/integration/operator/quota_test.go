package operator

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("A namespace with a quota for requests and limits", Serial, func() {
	It("admits the pods of agents whose template says what they need, since our own containers do", func(ctx SpecContext) {
		ns := namespace(ctx, nil)
		Expect(api.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "everything"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourceRequestsCPU: resource.MustParse("10"), corev1.ResourceRequestsMemory: resource.MustParse("10Gi"),
				corev1.ResourceLimitsMemory: resource.MustParse("10Gi"),
			}},
		})).To(Succeed())
		startOperator(onlyNamespace(ns))
		swarm := sample(ctx, ns)
		Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("6 have a ready pod"))
	})
})

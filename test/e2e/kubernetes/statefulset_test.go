package kubernetes

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var _ = Describe("A StatefulSet", func() {
	It("gives a deleted pod its name and its data back", func(ctx SpecContext) {
		create(ctx, headless("web"), httpServer().claiming("data").statefulSet("web", 3))
		Expect(awaitServing(ctx, "web", 3)).To(HaveEach(HaveField("Name", BeElementOf("web-0", "web-1", "web-2"))))
		before := awaitReady(ctx, "web-0")
		claim := boundClaim(ctx, "data-web-0")
		Expect(execProbe(ctx, before, "write", "/data/note", "kept by web-0")).To(BeEmpty())

		Expect(api.Delete(ctx, before)).To(Succeed())
		after := awaitSuccessor(ctx, before)

		Expect(content(ctx, after, "/data/note")).To(Equal("kept by web-0"))
		Expect(boundClaim(ctx, "data-web-0")).To(HaveField("UID", claim.UID))
		_, err := content(ctx, awaitReady(ctx, "web-1"), "/data/note")
		Expect(err).To(MatchError(ContainSubstring("no such file")), "each pod has a volume of its own")
	})
})

// awaitSuccessor waits for the next pod with the name of another.
func awaitSuccessor(ctx context.Context, former *corev1.Pod) *corev1.Pod {
	Eventually(func(ctx context.Context) (types.UID, error) {
		pod, err := fetch(ctx, former)
		return pod.UID, err
	}).WithContext(ctx).ShouldNot(Equal(former.UID))
	return awaitReady(ctx, former.Name)
}

func boundClaim(ctx context.Context, name string) *corev1.PersistentVolumeClaim {
	claim, err := fetch(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, claim.Status.Phase).To(Equal(corev1.ClaimBound))
	return claim
}

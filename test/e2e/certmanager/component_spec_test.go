package certmanager

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/chronicle"
	"github.com/swarm-io/swarm-operator/internal/testkit/gate"
)

var _ = Describe("A certificate by cert-manager", Serial, func() {
	Context("as it comes", Ordered, func() { certified() })
	// From 1.19 on it adds a CA to caBundle; before, and with this feature gate off, the new CA replaces the former.
	Context("as it was until 1.18", Ordered, func() { certified("CAInjectorMerging=false") })
})

// certified are the specs with a cert-manager that has these feature gates.
func certified(gates ...string) {
	BeforeAll(func(ctx SpecContext) {
		start(gates...)
		install(ctx)
		entrance.ExtendTimeout(ctx)
	})

	It("is the one that replicas show, and pods are given their places", func(ctx SpecContext) {
		awaitShown(ctx, entrance.ReplicaAddresses(ctx))
		deployed := covered(ctx)
		Expect(entrance.API.Patch(ctx, deployed, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":false}}`)))).To(Succeed())
		Eventually(func(g Gomega) {
			found, err := pods(ctx, deployed)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HaveLen(4))
			g.Expect(found).To(HaveEach(Satisfy(func(pod corev1.Pod) bool { return chronicle.IsAvailable(&pod) })))
		}).WithContext(ctx).Should(Succeed())
		Expect(pods(ctx, deployed)).To(HaveEach(Satisfy(func(pod corev1.Pod) bool { return gate.IsPlaced(&pod) })))
	})

	It("is known by caBundle, which only cert-manager writes", func(ctx SpecContext) {
		covered(ctx)
		writers, version := written(ctx)
		Expect(writers).To(HaveExactElements("cert-manager-cainjector"))
		Consistently(func() string {
			_, now := written(ctx)
			return now
		}).WithContext(ctx).WithTimeout(brief).Should(Equal(version), "at rest")
	})

	It("is renewed, and no pod goes without its place", func(ctx SpecContext) {
		renewed(ctx, func() { renew(ctx, shown) })
	})

	It("is good while its CA is renewed, and no pod goes without its place", func(ctx SpecContext) {
		renewed(ctx, func() {
			renew(ctx, signing)
			By("it signs from now on")
			renew(ctx, shown)
		})
	})
}

// renewed proves that certificates can change while pods are made.
func renewed(ctx context.Context, change func()) {
	GinkgoHelper()
	at, ignores := entrance.ReplicaAddresses(ctx), entrance.FailOpenCount(ctx)
	stream := entrance.StartPodStream(ctx, covered(ctx), at)
	stream.AwaitPods(ctx)
	change()
	awaitTrusted(ctx)
	By("replicas show the former one until their kubelets have looked")
	stream.AwaitPods(ctx)
	hasten(ctx)
	awaitShown(ctx, at)
	stream.AwaitPods(ctx)
	stream.ExpectAllPlaced(60)
	Expect(entrance.FailOpenCount(ctx)).To(Equal(ignores), "by the API server's own count")
}

// written returns the field managers of caBundle, and the version of the configuration.
func written(ctx context.Context) (writers []string, version string) {
	GinkgoHelper()
	found, err := entrance.Configuration(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range found.ManagedFields {
		if strings.Contains(entry.FieldsV1.GetRawString(), `"f:caBundle"`) {
			writers = append(writers, entry.Manager)
		}
	}
	return writers, found.ResourceVersion
}

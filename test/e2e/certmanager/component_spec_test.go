package certmanager

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
	"github.com/swarm-io/swarm-operator/internal/testkit/webhookprobe"
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
		webhook.ExtendTimeout(ctx)
	})

	It("is the one that replicas show, and pods are given their places", func(ctx SpecContext) {
		awaitServed(ctx, webhook.ReplicaAddresses(ctx))
		deployment := coveredDeployment(ctx)
		Expect(webhook.API.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":false}}`)))).To(Succeed())
		Eventually(func(g Gomega) {
			found, err := pods(ctx, deployment)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HaveLen(4))
			g.Expect(found).To(HaveEach(Satisfy(func(pod corev1.Pod) bool { return podwatch.IsAvailable(&pod) })))
		}).WithContext(ctx).Should(Succeed())
		Expect(pods(ctx, deployment)).To(HaveEach(Satisfy(func(pod corev1.Pod) bool { return webhookprobe.IsPlaced(&pod) })))
	})

	It("is known by caBundle, which only cert-manager writes", func(ctx SpecContext) {
		coveredDeployment(ctx)
		writers, version := configurationWriters(ctx)
		Expect(writers).To(HaveExactElements("cert-manager-cainjector"))
		Consistently(func() string {
			_, now := configurationWriters(ctx)
			return now
		}).WithContext(ctx).WithTimeout(quietPeriod).Should(Equal(version), "at rest")
	})

	It("is renewed, and no pod goes without its place", func(ctx SpecContext) {
		expectRenewalWithoutDowntime(ctx, func() { renew(ctx, servingCertificate) })
	})

	It("is good while its CA is renewed, and no pod goes without its place", func(ctx SpecContext) {
		expectRenewalWithoutDowntime(ctx, func() {
			renew(ctx, signing)
			By("it signs from now on")
			renew(ctx, servingCertificate)
		})
	})
}

// expectRenewalWithoutDowntime checks that certificates can change while pods are created.
func expectRenewalWithoutDowntime(ctx context.Context, change func()) {
	GinkgoHelper()
	at, failOpenCount := webhook.ReplicaAddresses(ctx), webhook.FailOpenCount(ctx)
	stream := webhook.StartPodStream(ctx, coveredDeployment(ctx), at)
	stream.AwaitPods(ctx)
	change()
	awaitTrusted(ctx)
	By("replicas show the former one until their kubelets have looked")
	stream.AwaitPods(ctx)
	refreshSecretVolumes(ctx)
	awaitServed(ctx, at)
	stream.AwaitPods(ctx)
	stream.ExpectAllPlaced(60)
	Expect(webhook.FailOpenCount(ctx)).To(Equal(failOpenCount), "by the API server's own count")
}

// configurationWriters returns the field managers of caBundle, and the version of the configuration.
func configurationWriters(ctx context.Context) (writers []string, version string) {
	GinkgoHelper()
	configuration, err := webhook.Configuration(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range configuration.ManagedFields {
		if strings.Contains(entry.FieldsV1.GetRawString(), `"f:caBundle"`) {
			writers = append(writers, entry.Manager)
		}
	}
	return writers, configuration.ResourceVersion
}

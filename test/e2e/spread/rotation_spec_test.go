package spread

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
	"github.com/swarm-io/swarm-operator/internal/testkit/webhookprobe"
)

// remainingOverlap is what a CA has left of its overlap when a spec makes it known.
const remainingOverlap = 5 * time.Second

var _ = Describe("Certificates, while ten pods a second are made", Serial, func() {
	var (
		at      []string // the addresses of both replicas
		pods    *webhookprobe.PodStream
		ignores float64
	)

	BeforeEach(func(ctx SpecContext) {
		chaos.SkipOnForeignCluster()
		cluster.AwaitOperator(ctx)
		awaitQuiet(ctx)
		webhook.ExtendTimeout(ctx)
		awaitCovered(ctx)
		at = webhook.ReplicaAddresses(ctx)
		ignores = webhook.FailOpenCount(ctx)
		pods = webhook.StartPodStream(ctx, pausedDeployment("cover"), at)
		pods.AwaitPods(ctx)
	})

	It("are renewed before they expire, and no pod goes without its place [R21/near-expiry, R21/ca-bundle, R21/no-failed-admission, O16/certificate-rotated]", func(ctx SpecContext) {
		secret := readSecret(ctx)
		signer := certificates(secret.Data["ca.crt"])[0]
		certificate, key := nearlyOld(secret)
		rewrite(ctx, map[string][]byte{"tls.crt": certificate, "tls.key": key})
		Eventually(func() time.Time { return certificates(readSecret(ctx).Data["tls.crt"])[0].NotAfter }).WithContext(ctx).
			Should(BeTemporally("~", time.Now().Add(certs.DefaultLifetimes().Serving), time.Hour))
		awaitServed(ctx, at, signer)
		pods.AwaitPods(ctx)

		By("the CA, too: it is made known, then it signs")
		bundle := certificates(readSecret(ctx).Data["ca.crt"])
		next, nextKey := nextAuthority(certs.DefaultLifetimes().Overlap - remainingOverlap)
		rewrite(ctx, map[string][]byte{"ca.crt": slices.Concat(readSecret(ctx).Data["ca.crt"], next), "next.key": nextKey})
		awaitTrusted(ctx, len(bundle)+1)
		awaitServed(ctx, at, certificates(next)[0])
		awaitTrusted(ctx, len(bundle)+1)
		pods.AwaitPods(ctx)

		pods.ExpectAllPlaced(100)
		Expect(webhook.FailOpenCount(ctx)).To(Equal(ignores), "by the API server's own count")
	})

	It("are made anew when their Secret is deleted, and no pod goes without its place [R21/secret-deleted, R21/ca-bundle, R21/no-failed-admission]", func(ctx SpecContext) {
		former := readSecret(ctx)
		old := certificates(former.Data["ca.crt"])[0]
		Expect(api.Delete(ctx, former)).To(Succeed())
		made := awaitAuthority(ctx, old, func() ([]byte, error) {
			secret := linkSecret()
			err := api.Get(ctx, client.ObjectKeyFromObject(secret), secret)
			return secret.Data["ca.crt"], client.IgnoreNotFound(err)
		})
		told := awaitAuthority(ctx, old, func() ([]byte, error) { return webhook.TrustedCA(ctx) })
		reportMeasurement("from the new CA until the API server was told", told.Sub(made).Round(time.Millisecond).String())
		By("the former CA is trusted until no replica shows what it has signed")
		Expect(certificates(trustedBundle(ctx))).To(ContainElement(old))
		awaitServed(ctx, at, certificates(readSecret(ctx).Data["ca.crt"])[0])
		Expect(certificates(trustedBundle(ctx))).To(ContainElement(old))
		awaitTrusted(ctx, 1)
		pods.AwaitPods(ctx)

		pods.ExpectAllPlaced(40)
		Expect(webhook.FailOpenCount(ctx)).To(Equal(ignores), "by the API server's own count")
	})
})

// awaitAuthority waits until a bundle begins with another CA, and returns when that was.
func awaitAuthority(ctx context.Context, old *x509.Certificate, bundle func() ([]byte, error)) time.Time {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		text, err := bundle()
		g.Expect(err).NotTo(HaveOccurred())
		found, err := cert.ParseCertsPEM(text)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found[0].Equal(old)).To(BeFalse())
	}).WithContext(ctx).WithPolling(5 * time.Millisecond).Should(Succeed())
	return time.Now()
}

// awaitQuiet waits until the pods of earlier specs are gone: a machine that is busy with them delays the API server, and these specs test
// certificates.
func awaitQuiet(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		found := &corev1.NamespaceList{}
		g.Expect(api.List(ctx, found)).To(Succeed())
		for _, other := range found.Items {
			g.Expect(other.Name == namespace || other.DeletionTimestamp == nil).To(BeTrue(), other.Name)
		}
	}).WithContext(ctx).Should(Succeed())
}

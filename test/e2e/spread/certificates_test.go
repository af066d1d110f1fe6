package spread

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
	"github.com/swarm-io/swarm-operator/internal/testkit/webhookprobe"
)

const day = 24 * time.Hour

func linkSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testcluster.SystemNamespace, Name: certs.SecretName}}
}

// readSecret reads the Secret.
func readSecret(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	secret := linkSecret()
	Expect(api.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	return secret
}

// rewrite puts other things into the Secret than the operator did.
func rewrite(ctx context.Context, changes map[string][]byte) {
	GinkgoHelper()
	patch(ctx, linkSecret(), map[string]any{"data": changes})
}

// trustedBundle is the CA that the API server trusts at the spread webhook.
func trustedBundle(ctx context.Context) []byte {
	GinkgoHelper()
	bundle, err := webhook.TrustedCA(ctx)
	Expect(err).NotTo(HaveOccurred())
	return bundle
}

// awaitTrusted waits until the API server trusts exactly the CAs in the Secret.
func awaitTrusted(ctx context.Context, authorities int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		bundle, err := webhook.TrustedCA(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		secret := linkSecret()
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		g.Expect(string(bundle)).To(Equal(string(secret.Data["ca.crt"])))
		g.Expect(cert.ParseCertsPEM(bundle)).To(HaveLen(authorities))
	}).WithContext(ctx).Should(Succeed())
}

// awaitServed waits until every replica shows what the Secret holds, which is signed by that CA.
func awaitServed(ctx context.Context, addresses []string, authority *x509.Certificate) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		secret := linkSecret()
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		want, err := cert.ParseCertsPEM(secret.Data["tls.crt"])
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(want[0].CheckSignatureFrom(authority)).To(Succeed())
		for _, door := range addresses {
			leaf, err := webhookprobe.ServedCertificate(ctx, door, secret.Data["ca.crt"])
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(leaf.Equal(want[0])).To(BeTrue())
		}
	}).WithContext(ctx).Should(Succeed())
}

// certificates are the certificates of a file in the Secret.
func certificates(text []byte) []*x509.Certificate {
	GinkgoHelper()
	found, err := cert.ParseCertsPEM(text)
	Expect(err).NotTo(HaveOccurred())
	return found
}

// nearlyOld is a certificate like the one in the Secret, by the same CA, with 61 of its 90 days over.
func nearlyOld(secret *corev1.Secret) (certificate, key []byte) {
	GinkgoHelper()
	like, authority := certificates(secret.Data["tls.crt"])[0], certificates(secret.Data["ca.crt"])[0]
	signer, err := keyutil.ParsePrivateKeyPEM(secret.Data["ca.key"])
	Expect(err).NotTo(HaveOccurred())
	return issueCertificate(&x509.Certificate{
		Subject: like.Subject, DNSNames: like.DNSNames, IPAddresses: like.IPAddresses, KeyUsage: like.KeyUsage, ExtKeyUsage: like.ExtKeyUsage,
		NotBefore: time.Now().Add(-61*day - time.Hour), NotAfter: time.Now().Add(29 * day),
	}, authority, signer)
}

// nextAuthority is a CA as the operator makes them, made so long ago.
func nextAuthority(ago time.Duration) (certificate, key []byte) {
	GinkgoHelper()
	return issueCertificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "swarm-operator-link CA of the suite"}, NotBefore: time.Now().Add(-ago - time.Hour),
		NotAfter: time.Now().Add(3650 * day),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, nil, nil)
}

// issueCertificate is a certificate by that CA, or by itself, with its key.
func issueCertificate(template, authority *x509.Certificate, signer any) (certificate, key []byte) {
	GinkgoHelper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	if authority == nil {
		authority, signer = template, own
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, authority, own.Public(), signer)
	Expect(err).NotTo(HaveOccurred())
	parsed, err := x509.ParseCertificate(signed)
	Expect(err).NotTo(HaveOccurred())
	certificate, err = cert.EncodeCertificates(parsed)
	Expect(err).NotTo(HaveOccurred())
	key, err = keyutil.MarshalPrivateKeyToPEM(own)
	Expect(err).NotTo(HaveOccurred())
	return certificate, key
}

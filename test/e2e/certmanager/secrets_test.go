package certmanager

import (
	"bytes"
	"context"
	"crypto/x509"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
	"github.com/swarm-io/swarm-operator/internal/testkit/webhookprobe"
)

// Certificates and their Secrets have the same names.
const (
	servingCertificate = "swarm-operator-webhook" // served by replicas
	signing            = "swarm-operator-webhook-ca"
)

// readSecret reads the Secret of a Certificate, which has the same name.
func readSecret(ctx context.Context, name string) (leaf *x509.Certificate, signer []byte) {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(webhook.API.Get(ctx, client.ObjectKey{Namespace: testcluster.SystemNamespace, Name: name}, secret)).To(Succeed())
	found, err := cert.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
	Expect(err).NotTo(HaveOccurred())
	return found[0], secret.Data["ca.crt"]
}

// renew does what `cmctl renew` does, and waits until there is a new certificate.
func renew(ctx context.Context, name string) {
	GinkgoHelper()
	before, _ := readSecret(ctx, name)
	testcluster.MustKubectl(ctx, "patch", "certificate", name, "--namespace", testcluster.SystemNamespace, "--subresource", "status", "--type",
		"json",
		"--patch",
		`[{"op":"add","path":"/status/conditions/-","value":{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"by the suite"}}]`)
	Eventually(func() bool {
		now, _ := readSecret(ctx, name)
		return now.Equal(before)
	}).WithContext(ctx).WithPolling(10 * time.Millisecond).Should(BeFalse())
}

// awaitTrusted waits until the webhook configurations hold the CA that has signed the certificate in the Secret.
func awaitTrusted(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		_, signer := readSecret(ctx, servingCertificate)
		g.Expect(webhook.TrustedCA(ctx)).To(Satisfy(func(bundle []byte) bool { return bytes.Contains(bundle, bytes.TrimSpace(signer)) }))
	}).WithContext(ctx).Should(Succeed())
}

// awaitServed waits until every replica serves the certificate in the Secret, and the API server would accept it.
func awaitServed(ctx context.Context, addresses []string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		want, _ := readSecret(ctx, servingCertificate)
		bundle, err := webhook.TrustedCA(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		for _, door := range addresses {
			leaf, err := webhookprobe.ServedCertificate(ctx, door, bundle)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(leaf.Equal(want)).To(BeTrue())
		}
	}).WithContext(ctx).Should(Succeed())
}

// refreshSecretVolumes makes kubelets sync the operator's pods, and so their Secrets, now: by themselves they take a minute or two.
func refreshSecretVolumes(ctx context.Context) {
	GinkgoHelper()
	pods, err := webhook.OperatorPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods {
		testcluster.MustKubectl(ctx, "annotate", "pod", pod.Name, "--namespace", testcluster.SystemNamespace, "--overwrite",
			"swarm.io/looked-at="+strconv.FormatInt(time.Now().UnixNano(), 10))
	}
}

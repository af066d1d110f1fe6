package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

var _ = Describe("The certificate of the metrics", Serial, func() {
	It("is verified by the CA in the ConfigMap and by no other, also after all of it was made anew", func(ctx SpecContext) {
		ns, port := namespace(ctx, nil), ports.Free()
		reader := token(ctx, ns, "reader")
		allow(ctx, "swarm-metrics-reader", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "reader"},
			rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
		startOperator(onlyNamespace(ns), "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_PORT="+port)
		Eventually(scrapeWithCA).WithContext(ctx).WithArguments(port, reader, publishedCA).Should(Equal(http.StatusOK))

		_, err := scrapeWithCA(ctx, port, reader, func(context.Context) (string, error) { return newForeignCA() })
		var unknown x509.UnknownAuthorityError
		Expect(errors.As(err, &unknown)).To(BeTrue(), "%v", err)

		former, err := publishedCA(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Delete(ctx, objectAt(&corev1.ConfigMap{}, system, "swarm-operator-ca"))).To(Succeed())
		Eventually(publishedCA).WithContext(ctx).Should(Equal(former), "it is restored")

		Expect(api.Delete(ctx, objectAt(&corev1.Secret{}, system, "swarm-operator-link"))).To(Succeed())
		Eventually(publishedCA).WithContext(ctx).ShouldNot(Equal(former), "another CA is made")
		Eventually(scrapeWithCA).WithContext(ctx).WithArguments(port, reader, publishedCA).Should(Equal(http.StatusOK))
		Eventually(func(ctx context.Context) error {
			_, err := scrapeWithCA(ctx, port, reader, func(context.Context) (string, error) { return former, nil })
			return err
		}).WithContext(ctx).Should(HaveOccurred(), "the former CA is worth nothing")
	})
})

// publishedCA is what Prometheus verifies metrics by.
func publishedCA(ctx context.Context) (string, error) {
	found := &corev1.ConfigMap{}
	err := api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator-ca"}, found)
	return found.Data["ca.crt"], err
}

// newForeignCA is one that has signed nothing here.
func newForeignCA() (string, error) {
	text, _, err := cert.GenerateSelfSignedCertKey("swarm-operator-metrics.swarm-system.svc", nil, nil)
	return string(text), err
}

// scrapeWithCA scrapes the metrics like the ServiceMonitor, with the CA that is given, and returns the status.
func scrapeWithCA(ctx context.Context, port, token string, ca func(context.Context) (string, error)) (int, error) {
	bundle, err := ca(ctx)
	if err != nil {
		return 0, err
	}
	pool, err := cert.NewPoolFromBytes([]byte(bundle))
	if err != nil {
		return 0, err
	}
	prometheus := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "swarm-operator-metrics.swarm-system.svc"},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL("https", port), nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := prometheus.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

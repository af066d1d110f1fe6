package operator

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

const noPool = `there is no WorkerPool "nobodys"`

// webhookSettings are the settings of an operator whose webhook is reachable for the API server, on the same machine.
func webhookSettings(ns, port string) []string {
	return []string{onlyNamespace(ns), "SWARM_WEBHOOK_ENABLED=true", "SWARM_WEBHOOK_PORT=" + port, linkAddress}
}

// registerWebhook makes the API server call that port for pods of one namespace, as the installed configuration does, until the spec ends.
func registerWebhook(ctx context.Context, ns, port string, bundle []byte) *admissionv1.MutatingWebhookConfiguration {
	GinkgoHelper()
	text, err := os.ReadFile(fromRoot("deploy", "kustomize", "operator", "admission.yaml"))
	Expect(err).NotTo(HaveOccurred())
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	Expect(yaml.UnmarshalStrict(text, configuration)).To(Succeed())
	for n := range configuration.Webhooks {
		path := *configuration.Webhooks[n].ClientConfig.Service.Path
		configuration.Webhooks[n].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:" + port + path), CABundle: bundle}
		configuration.Webhooks[n].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
	}
	Expect(api.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, configuration))).To(Succeed()) })
	return configuration
}

// trustedBundle is the CA that the API server trusts.
func trustedBundle(ctx context.Context, configuration *admissionv1.MutatingWebhookConfiguration) (string, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(configuration), found); err != nil {
		return "", err
	}
	return string(found.Webhooks[0].ClientConfig.CABundle), nil
}

// newStrayPod returns a pod of a pool that does not exist, or of no pool.
func newStrayPod(ns, pool string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "stray"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "localhost/any"}}}}
	if pool != "" {
		pod.Labels = map[string]string{v1alpha1.LabelPool: pool}
	}
	return pod
}

// createStrayPod returns the API server's response to a stray pod.
func createStrayPod(ctx context.Context, ns string) error {
	return api.Create(ctx, newStrayPod(ns, "nobodys"), client.DryRunAll)
}

func showWebhookEnabled(ctx SpecContext) {
	port, health := ports.Free(), ports.Free()
	off := startOperator("SWARM_WEBHOOK_ENABLED=false", "SWARM_WEBHOOK_PORT="+port, "SWARM_HEALTH_PORT="+health)
	Eventually(code).WithContext(ctx).WithArguments("http://127.0.0.1:"+health+"/readyz", "").Should(Equal(http.StatusOK))
	_, err := code(ctx, "https://127.0.0.1:"+port+"/pods", "")
	Expect(err).To(MatchError(ContainSubstring("connection refused")))
	Eventually(off.Terminate()).Should(gexec.Exit(0))

	startOperator("SWARM_WEBHOOK_ENABLED=true", "SWARM_WEBHOOK_PORT="+port)
	Eventually(code).WithContext(ctx).WithArguments("https://127.0.0.1:"+port+"/pods", "").Should(BeNumerically(">", 0))
}

func showWebhookPort(ctx SpecContext) {
	ns, port := namespace(ctx, nil), ports.Free()
	startOperator(webhookSettings(ns, port)...)
	registerWebhook(ctx, ns, port, nil)
	Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
}

func showWebhookCertDir(ctx SpecContext) {
	ns, port, folder := namespace(ctx, nil), ports.Free(), GinkgoT().TempDir()
	first := writeCertificate(folder)
	configuration := registerWebhook(ctx, ns, port, first)
	startOperator(append(webhookSettings(ns, port), "SWARM_WEBHOOK_CERT_DIR="+folder)...)
	Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
	Expect(servedCertificate(ctx, port)).To(Equal(leaf(first)))

	second := writeCertificate(folder)
	Eventually(servedCertificate).WithContext(ctx).WithArguments(port).Should(Equal(leaf(second)))
	Expect(trustedBundle(ctx, configuration)).To(Equal(string(first)), "a user who brings certificates tells the API server, too")
}

func showWebhookClientCA(ctx SpecContext) {
	ns, port, ca := namespace(ctx, nil), ports.Free(), linktest.NewCA(GinkgoTB())
	startOperator(append(webhookSettings(ns, port), "SWARM_WEBHOOK_CLIENT_CA="+ca.File(GinkgoTB()))...)
	asking := func(ctx context.Context, shown ...tls.Certificate) (int, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: shown}}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1:"+port+"/pods", strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	Eventually(asking).WithContext(ctx).WithArguments(ca.Peer).Should(Equal(http.StatusOK))
	Expect(asking(ctx)).To(Equal(http.StatusForbidden))
	_, err := asking(ctx, linktest.NewCA(GinkgoTB()).Peer)
	Expect(err).To(MatchError(ContainSubstring("certificate")), "of another CA")
}

// writeCertificate puts a new certificate and its key into the folder, and returns it with its CA.
func writeCertificate(folder string) []byte {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600)).To(Succeed())
	return certificate
}

// leaf returns the name of the first certificate of a bundle.
func leaf(bundle []byte) string {
	GinkgoHelper()
	all, err := cert.ParseCertsPEM(bundle)
	Expect(err).NotTo(HaveOccurred())
	return fingerprint(all[0])
}

func fingerprint(certificate *x509.Certificate) string {
	return fmt.Sprintf("%x", certificate.Signature)
}

// servedCertificate returns the name of the certificate that is served at a port.
func servedCertificate(ctx context.Context, port string) (string, error) {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	return fingerprint(connection.(*tls.Conn).ConnectionState().PeerCertificates[0]), nil
}

var _ = Describe("The webhook", Serial, func() {
	It("is known by its CA, also by a new one", func(ctx SpecContext) {
		ns, port := namespace(ctx, nil), ports.Free()
		startOperator(webhookSettings(ns, port)...)
		configuration := registerWebhook(ctx, ns, port, nil)
		Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
		old, err := trustedBundle(ctx, configuration)
		Expect(err).NotTo(HaveOccurred())
		secret, err := authoritySecret(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(old).To(Equal(string(secret.Data["ca.crt"])))

		Expect(api.Delete(ctx, secret)).To(Succeed())
		Eventually(trustedBundle).WithContext(ctx).WithArguments(configuration).ShouldNot(Equal(old))
		began := time.Now()
		Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
		AddReportEntry("after a new bundle the webhook answers again in", ReportEntryVisibilityAlways,
			fmt.Sprintf("%.1f s", time.Since(began).Seconds()))
	})

	It("[K13/standby-serves, R15/webhook-by-all] is served by a standby as well", func(ctx SpecContext) {
		ns, port := namespace(ctx, nil), ports.Free()
		leader := startOperator(webhookSettings(ns, ports.Free())...)
		Eventually(leader.Err).Should(gbytes.Say("Successfully acquired lease"))
		standby := startOperator(append(webhookSettings(ns, port), "SWARM_HEALTH_PORT="+ports.Free(), "SWARM_LINK_PORT="+ports.Free())...)
		registerWebhook(ctx, ns, port, nil)
		Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
		Expect(standby.Err.Contents()).NotTo(ContainSubstring("Successfully acquired lease"))
	})

	It("fails only pods that name a pool, and readyz reports whether it is there", func(ctx SpecContext) {
		ns, port, health := namespace(ctx, nil), ports.Free(), ports.Free()
		registerWebhook(ctx, ns, port, nil)
		Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring("failed calling webhook")),
			"while there is no answer")
		Expect(api.Create(ctx, newStrayPod(ns, ""), client.DryRunAll)).To(Succeed())

		startOperator(append(webhookSettings(ns, port), "SWARM_HEALTH_PORT="+health)...)
		Eventually(code).WithContext(ctx).WithArguments("http://127.0.0.1:"+health+"/readyz/webhook", "").Should(Equal(http.StatusOK))
		Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
		Expect(api.Create(ctx, newStrayPod(ns, ""), client.DryRunAll)).To(Succeed())
	})

	It("[R25/fails-when-down] makes readyz fail when its server is down, while the process lives", func(ctx SpecContext) {
		ns, port, health := namespace(ctx, nil), ports.Free(), ports.Free()
		session := startOperator(append(webhookSettings(ns, port), "SWARM_HEALTH_PORT="+health)...)
		address := "http://127.0.0.1:" + health
		Eventually(code).WithContext(ctx).WithArguments(address+"/readyz", "").Should(Equal(http.StatusOK))

		// A server that is shutting down accepts no connections, and the process waits for requests in progress.
		unfinished := beginReview(ctx, port)
		session.Terminate()
		Eventually(code).WithContext(ctx).WithArguments(address+"/readyz/webhook", "").Should(Equal(http.StatusInternalServerError))
		Expect(code(ctx, address+"/readyz", "")).To(Equal(http.StatusInternalServerError))
		Expect(code(ctx, address+"/healthz", "")).To(Equal(http.StatusOK))
		Expect(session).NotTo(gexec.Exit())
		Expect(unfinished.Close()).To(Succeed())
		Eventually(session).Should(gexec.Exit(0))
	})
})

// beginReview sends the header of a request to the webhook, and returns when the webhook waits for its body.
func beginReview(ctx context.Context, port string) net.Conn {
	GinkgoHelper()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = connection.Close() }) // the spec may have closed it
	_, err = fmt.Fprint(connection,
		"POST /pods HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	Expect(err).NotTo(HaveOccurred())
	line, err := bufio.NewReader(connection).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	Expect(line).To(ContainSubstring("100 Continue"))
	return connection
}

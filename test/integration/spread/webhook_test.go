package spread

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A webhookRequest is a request of the API server about a pod, and the replica that received it.
type webhookRequest struct{ namespace, pod, replica string }

// startWebhookProxy starts the proxy that the API server calls. Without a replica it answers no request, like a Service without endpoints.
func startWebhookProxy() *operatorFleet {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600)).To(Succeed())
	f := &operatorFleet{port: ports.Free(), folder: folder}
	f.server = &http.Server{Handler: f}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:"+f.port)
	Expect(err).NotTo(HaveOccurred())
	go func() {
		defer GinkgoRecover()
		err := f.server.ServeTLS(listener, filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
		Expect(err).To(MatchError(http.ErrServerClosed))
	}()
	return f
}

func (f *operatorFleet) close() { _ = f.server.Close() }

// ServeHTTP forwards a request to the next replica in turn, and records it.
func (f *operatorFleet) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	to := f.next()
	if to == nil {
		http.Error(writer, "not serving", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	if request.URL.Path == "/spread" {
		f.recordRequest(body, to)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	proxy := httputil.ReverseProxy{Transport: insecureTransport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "https", Host: "127.0.0.1:" + to.webhook})
	}}
	proxy.ServeHTTP(writer, request)
}

func (f *operatorFleet) recordRequest(body []byte, to *replica) {
	var review struct {
		Request struct {
			Namespace string
			Object    struct {
				Metadata struct{ Name, GenerateName string }
			}
		}
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	pod := review.Request.Object.Metadata
	f.webhookRequests = append(f.webhookRequests, webhookRequest{review.Request.Namespace, pod.Name + pod.GenerateName, to.name})
}

// requestsIn returns the requests about pods of a namespace.
func (f *operatorFleet) requestsIn(namespace string) []webhookRequest {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(f.webhookRequests), func(q webhookRequest) bool { return q.namespace != namespace })
}

// install makes the API server call the proxy as the installed configuration does, until the suite ends. The operator selects the
// namespaces.
func install(ctx context.Context, f *operatorFleet) {
	GinkgoHelper()
	text, err := os.ReadFile(testcluster.FromRoot("deploy", "kustomize", "operator", "admission.yaml"))
	Expect(err).NotTo(HaveOccurred())
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	Expect(yaml.UnmarshalStrict(text, configuration)).To(Succeed())
	bundle, err := os.ReadFile(filepath.Join(f.folder, "tls.crt"))
	Expect(err).NotTo(HaveOccurred())
	for n := range configuration.Webhooks {
		path := *configuration.Webhooks[n].ClientConfig.Service.Path
		configuration.Webhooks[n].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:" + f.port + path), CABundle: bundle}
	}
	Expect(client.IgnoreNotFound(api.Delete(ctx, configuration.DeepCopy()))).To(Succeed())
	Expect(api.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, configuration))).To(Succeed()) })
}

// selected returns the namespaces for which the API server calls the spread webhook.
func selected(ctx context.Context) ([]string, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := api.Get(ctx, client.ObjectKey{Name: "swarm-operator"}, found); err != nil {
		return nil, err
	}
	for _, webhook := range found.Webhooks {
		if webhook.Name == "spread.swarm.io" && webhook.NamespaceSelector != nil && len(webhook.NamespaceSelector.MatchExpressions) == 1 {
			return webhook.NamespaceSelector.MatchExpressions[0].Values, nil
		}
	}
	return nil, errors.New("webhook spread.swarm.io does not select namespaces by name")
}

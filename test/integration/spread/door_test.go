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

	"github.com/swarm-io/swarm-operator/internal/testkit/field"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// A question is a request of the API server about a pod, and the replica that received it.
type question struct{ namespace, pod, replica string }

// openDoor listens to the API server. Without a replica no request is answered, as with a Service that has no endpoint.
func openDoor() *fleet {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600)).To(Succeed())
	f := &fleet{port: ports.Free(), folder: folder}
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

func (f *fleet) close() { _ = f.server.Close() }

// ServeHTTP gives a question to the next replica in turn, and notes it.
func (f *fleet) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
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
		f.note(body, to)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	proxy := httputil.ReverseProxy{Transport: trusting, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "https", Host: "127.0.0.1:" + to.webhook})
	}}
	proxy.ServeHTTP(writer, request)
}

func (f *fleet) note(body []byte, to *replica) {
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
	f.asked = append(f.asked, question{review.Request.Namespace, pod.Name + pod.GenerateName, to.name})
}

// questions are the questions about pods of a namespace.
func (f *fleet) questions(namespace string) []question {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(f.asked), func(q question) bool { return q.namespace != namespace })
}

// install has the API server ask at the door as the installed configuration does, until the suite ends. Which namespaces are asked about
// is for the operator to say.
func install(ctx context.Context, at *fleet) {
	GinkgoHelper()
	text, err := os.ReadFile(field.FromRoot("deploy", "kustomize", "operator", "admission.yaml"))
	Expect(err).NotTo(HaveOccurred())
	made := &admissionv1.MutatingWebhookConfiguration{}
	Expect(yaml.UnmarshalStrict(text, made)).To(Succeed())
	bundle, err := os.ReadFile(filepath.Join(at.folder, "tls.crt"))
	Expect(err).NotTo(HaveOccurred())
	for n := range made.Webhooks {
		path := *made.Webhooks[n].ClientConfig.Service.Path
		made.Webhooks[n].ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:" + at.port + path), CABundle: bundle}
	}
	Expect(client.IgnoreNotFound(api.Delete(ctx, made.DeepCopy()))).To(Succeed())
	Expect(api.Create(ctx, made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, made))).To(Succeed()) })
}

// selected returns the namespaces about whose pods the API server asks the spread webhook.
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

package kit_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

// An address is where an operator serves webhooks, and the certificate it shows there.
type address struct {
	port        int
	folder      string
	certificate []byte
}

// newWebhookAddress returns an address for webhooks that the API server can reach.
func newWebhookAddress() address {
	if !strings.Contains(apiServer.Host, "127.0.0.1") {
		Skip("the API server is not on this machine and cannot call us")
	}
	_, port, err := net.SplitHostPort(freeAddress())
	Expect(err).NotTo(HaveOccurred())
	a := address{folder: GinkgoT().TempDir()}
	a.port, err = strconv.Atoi(port)
	Expect(err).NotTo(HaveOccurred())

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kit"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	Expect(err).NotTo(HaveOccurred())
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	a.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	Expect(os.WriteFile(filepath.Join(a.folder, "tls.crt"), a.certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(a.folder, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)).
		To(Succeed())
	return a
}

func (a address) url(path string) *string {
	return new(fmt.Sprintf("https://127.0.0.1:%d%s", a.port, path))
}

func (a address) serve(options *kit.Options, _ *rest.Config) {
	options.Manager.WebhookServer = webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: a.port, CertDir: a.folder})
}

// rules are admission rules: apps get an image by default, and none may be called forbidden.
type rules struct{}

func (rules) Default(_ context.Context, app *v1.WebApp) error {
	if app.Spec.Image == "default" {
		app.Spec.Image = "example/default:1"
	}
	return nil
}

func (rules) ValidateCreate(_ context.Context, app *v1.WebApp) (admission.Warnings, error) {
	if app.Name == "forbidden" {
		return nil, errors.New("this name is taken")
	}
	return nil, nil
}

func (rules) ValidateUpdate(context.Context, *v1.WebApp, *v1.WebApp) (admission.Warnings, error) {
	return nil, nil
}
func (rules) ValidateDelete(context.Context, *v1.WebApp) (admission.Warnings, error) { return nil, nil }

var _ = It("[K13/standby-serves, K19/admission] a standby serves defaulting and validating webhooks", func(ctx SpecContext) {
	namespace := createNamespace(ctx, "webhooks", "yes")
	run(namespace, "webapp-k13-leader") // holds a Lease called webapp
	Eventually(holder(ctx, namespace)).Should(Equal("webapp-k13-leader"))
	at := newWebhookAddress()
	standby := operator([]string{namespace}, at.serve, func(options *kit.Options, _ *rest.Config) {
		options.Election = kit.Election{Namespace: namespace, Name: "webapp", Identity: "standby"}
	})
	Expect(builder.WebhookManagedBy(standby.Operator, &v1.WebApp{}).WithDefaulter(rules{}).WithValidator(rules{}).Complete()).To(Succeed())
	standby.start()
	Eventually(func() []string { return standby.log.lines("caches synced, ready") }).ShouldNot(BeEmpty())

	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"webhooks": "yes"}}
	rule := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{"example.swarm.io"}, APIVersions: []string{"v1"}, Resources: []string{"webapps"}},
	}}
	reach := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{URL: at.url(path), CABundle: at.certificate}
	}
	none := new(admissionv1.SideEffectClassNone)
	defaulting := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "default.example.swarm.io", ClientConfig: reach("/mutate-example-swarm-io-v1-webapp"), Rules: rule,
			NamespaceSelector: selector, SideEffects: none, AdmissionReviewVersions: []string{"v1"}}}}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate.example.swarm.io", ClientConfig: reach("/validate-example-swarm-io-v1-webapp"), Rules: rule,
			NamespaceSelector: selector, SideEffects: none, AdmissionReviewVersions: []string{"v1"}}}}
	for _, configuration := range []client.Object{defaulting, validating} {
		Expect(api.Create(ctx, configuration)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, configuration)).To(Succeed()) })
	}

	attempt := func(name string) (*v1.WebApp, error) {
		app := &v1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.WebAppSpec{Image: "default"}}
		return app, api.Create(ctx, app)
	}
	Eventually(func() error { _, err := attempt("forbidden"); return err }).Should(MatchError(ContainSubstring("this name is taken")))
	count := 0
	Eventually(func(g Gomega) string {
		count++
		app, err := attempt(fmt.Sprint("app-", count))
		g.Expect(err).NotTo(HaveOccurred())
		return app.Spec.Image
	}).Should(Equal("example/default:1"))
	Expect(standby.Leadership.Fresh()).To(BeFalse(), "it served them, and does not lead")
})

// A Gadget is stored as v1, with size, and is also served as v2, with length.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Size int64 `json:"size"`
}

type longGadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Length int64 `json:"length"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	return &gadget{TypeMeta: g.TypeMeta, ObjectMeta: *g.DeepCopy(), Size: g.Size}
}

func (g *longGadget) DeepCopyObject() runtime.Object {
	return &longGadget{TypeMeta: g.TypeMeta, ObjectMeta: *g.DeepCopy(), Length: g.Length}
}

func (g *gadget) Hub() {}

func (g *longGadget) ConvertTo(hub conversion.Hub) error {
	to := hub.(*gadget)
	to.ObjectMeta, to.Size = g.ObjectMeta, g.Length
	return nil
}

func (g *longGadget) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*gadget)
	g.ObjectMeta, g.Length = from.ObjectMeta, from.Size
	return nil
}

var _ = It("[K19/conversion] a conversion webhook serves one object in two versions", func(ctx SpecContext) {
	namespace, at := createNamespace(ctx), newWebhookAddress()
	group := strings.ReplaceAll(namespace, "-", "") + ".swarm.io"
	first, second := schema.GroupVersion{Group: group, Version: "v1"}, schema.GroupVersion{Group: group, Version: "v2"}
	known := runtime.NewScheme()
	known.AddKnownTypeWithName(first.WithKind("Gadget"), &gadget{})
	known.AddKnownTypeWithName(second.WithKind("Gadget"), &longGadget{})
	o := operator([]string{namespace}, at.serve, func(options *kit.Options, _ *rest.Config) { options.Manager.Scheme = known })
	Expect(builder.WebhookManagedBy(o.Operator, &gadget{}).Complete()).To(Succeed())
	o.start()

	whole := func(field string) *apiextensionsv1.CustomResourceValidation {
		return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{field: {Type: "integer", Format: "int64"}}}}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true, Schema: whole("size")},
				{Name: "v2", Served: true, Schema: whole("length")},
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: at.url("/convert"), CABundle: at.certificate},
					ConversionReviewVersions: []string{"v1"},
				}},
		},
	}
	Expect(api.Create(ctx, crd)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, crd)).To(Succeed()) })

	made := &unstructured.Unstructured{Object: map[string]any{"size": int64(7)}}
	made.SetGroupVersionKind(first.WithKind("Gadget"))
	made.SetNamespace(namespace)
	made.SetName("gadget")
	Eventually(func() error { return api.Create(ctx, made) }).Should(Succeed())
	read := &unstructured.Unstructured{}
	read.SetGroupVersionKind(second.WithKind("Gadget"))
	Eventually(func() error { return api.Get(ctx, client.ObjectKeyFromObject(made), read) }).Should(Succeed())
	Expect(read.Object["length"]).To(BeEquivalentTo(7))
	Expect(api.Delete(ctx, made)).To(Succeed())
})

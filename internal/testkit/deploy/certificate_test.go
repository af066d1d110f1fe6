package deploy

import (
	"path/filepath"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/swarm-io/swarm-operator/internal/operator"
)

// certManagerObject is the one object of a kind and name in an installation with the component.
func certManagerObject[T any](t *testing.T, kind, name string) (result T) {
	t.Helper()
	objects, err := buildCached(filepath.Join("testdata", "cert-manager"))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(objects, func(object *unstructured.Unstructured) bool {
		return object.GetKind() == kind && object.GetName() == name
	})
	if at < 0 {
		t.Fatalf("there is no %s %q", kind, name)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[at].Object, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// certificate is what we use of cert-manager's kind.
type certificate struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName string   `json:"secretName"`
		DNSNames   []string `json:"dnsNames"`
		IsCA       bool     `json:"isCA"`
		IssuerRef  struct {
			Name string `json:"name"`
		} `json:"issuerRef"`
		PrivateKey struct {
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
	} `json:"spec"`
}

// issuer is the same of what signs.
type issuer struct {
	Spec struct {
		CA struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

// Until a kubelet has brought the next certificate, a replica shows the former one, which the API server must know by the same CA.
func TestCertManagerCAOutlivesItsCertificates(t *testing.T) {
	signer := certManagerObject[issuer](t, "Issuer", certManagerObject[certificate](t, "Certificate",
		"swarm-operator-webhook").Spec.IssuerRef.Name)
	authority := certManagerObject[certificate](t, "Certificate", "swarm-operator-webhook-ca").Spec
	if authority.SecretName != signer.Spec.CA.SecretName || !authority.IsCA || authority.PrivateKey.RotationPolicy != "Never" {
		t.Errorf("signed by Secret %q, which is that of %+v", signer.Spec.CA.SecretName, authority)
	}
}

// Names in the component are names of objects, which can be renamed.
func TestCertManagerCertificateIsServed(t *testing.T) {
	cert := certManagerObject[certificate](t, "Certificate", "swarm-operator-webhook")
	config := certManagerObject[admissionv1.MutatingWebhookConfiguration](t, "MutatingWebhookConfiguration", "swarm-operator")
	if from := config.Annotations["cert-manager.io/inject-ca-from"]; from != cert.Namespace+"/swarm-operator-webhook" {
		t.Errorf("the CA is that of %s", from)
	}
	for _, hook := range config.Webhooks {
		if asked := hook.ClientConfig.Service.Name + "." + hook.ClientConfig.Service.Namespace +
			".svc"; !slices.Contains(cert.Spec.DNSNames, asked) {
			t.Errorf("%s asks %s, and the certificate is good for %v", hook.Name, asked, cert.Spec.DNSNames)
		}
	}
	pod := certManagerObject[appsv1.Deployment](t, "Deployment", "swarm-operator").Spec.Template.Spec
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == cert.Spec.SecretName })
	if at < 0 || !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == pod.Volumes[at].Name && m.MountPath == operator.Defaults().Webhook.CertDir
	}) {
		t.Errorf("Secret %s is not mounted where the operator looks for certificates", cert.Spec.SecretName)
	}
}

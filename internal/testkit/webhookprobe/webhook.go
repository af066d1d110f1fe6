// Package webhookprobe observes the operator's webhook as the API server sees it: which CA the API server trusts, which certificate each
// replica presents, how often the API server continued without an answer, and whether pods are placed while certificates change.
//
// It is for Ginkgo suites on our own cluster, where this machine reaches pods. It only reads and sends dry runs: it creates no pods, and
// only a paused workload. Only ExtendTimeout changes the installation.
package webhookprobe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"regexp"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// webhookServerName is how the API server calls the webhook.
const webhookServerName = "swarm-operator-webhook." + testcluster.SystemNamespace + ".svc"

// A Webhook is the webhook of the operator that is installed in a cluster.
type Webhook struct{ testcluster.Cluster }

// ConnectOwn returns the webhook of our own cluster, once the operator is ready there. Other clusters are skipped.
func ConnectOwn(ctx context.Context) Webhook {
	GinkgoHelper()
	chaos.SkipOnForeignCluster()
	webhook := Webhook{testcluster.Connect()}
	webhook.AwaitOperator(ctx)
	return webhook
}

// Configuration returns the webhook's configuration.
func (g Webhook) Configuration(ctx context.Context) (*admissionv1.MutatingWebhookConfiguration, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	return found, g.API.Get(ctx, client.ObjectKey{Name: webhookconfig.ConfigurationName}, found)
}

// TrustedCA returns the CA that the API server trusts at the spread webhook.
func (g Webhook) TrustedCA(ctx context.Context) ([]byte, error) {
	found, err := g.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	for _, hook := range found.Webhooks {
		if hook.Name == webhookconfig.SpreadWebhook {
			return hook.ClientConfig.CABundle, nil
		}
	}
	return nil, nil
}

// extendedTimeoutSeconds is how long the API server waits for the webhook after ExtendTimeout.
const extendedTimeoutSeconds = 10

// ExtendTimeout makes the API server wait longer for the spread webhook, until the spec or its container ends. The installation allows 2 s,
// which compilers that run beside a suite can use up. An untrusted certificate is still refused at once.
func (g Webhook) ExtendTimeout(ctx context.Context) {
	GinkgoHelper()
	found, err := g.Configuration(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, hook := range found.Webhooks {
		if hook.Name == webhookconfig.SpreadWebhook {
			g.setTimeout(ctx, extendedTimeoutSeconds)
			DeferCleanup(g.setTimeout, *hook.TimeoutSeconds)
		}
	}
}

// setTimeout changes only the timeout: the operator and the installation own the other fields.
func (g Webhook) setTimeout(ctx context.Context, seconds int32) {
	GinkgoHelper()
	found, err := g.Configuration(ctx)
	Expect(err).NotTo(HaveOccurred())
	change := fmt.Appendf(nil, `{"webhooks":[{"name":%q,"timeoutSeconds":%d}]}`, webhookconfig.SpreadWebhook, seconds)
	Expect(g.API.Patch(ctx, found, client.RawPatch(types.StrategicMergePatchType, change))).To(Succeed())
}

// ReplicaAddresses returns the addresses at which the webhook of each replica listens.
func (g Webhook) ReplicaAddresses(ctx context.Context) (addresses []string) {
	GinkgoHelper()
	found, err := g.OperatorPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range found {
		addresses = append(addresses, net.JoinHostPort(pod.Status.PodIP, "9443"))
	}
	return addresses
}

// ServedCertificate returns the certificate that is served at an address, and an error if a client that trusts these CAs would not accept
// it.
func ServedCertificate(ctx context.Context, door string, bundle []byte) (*x509.Certificate, error) {
	dialer := &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}} //nolint:gosec // it is looked at below
	connection, err := dialer.DialContext(ctx, "tcp", door)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	leaf := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: webhookServerName})
	return leaf, err
}

var failOpenMetric = regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{name="spread\.swarm\.io",.*\} (\S+)$`)

// FailOpenCount returns how often the API server continued without an answer, according to its own metric.
func (g Webhook) FailOpenCount(ctx context.Context) (count float64) {
	GinkgoHelper()
	text, err := g.Clientset.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, found := range failOpenMetric.FindAllSubmatch(text, -1) {
		some, err := strconv.ParseFloat(string(found[1]), 64)
		Expect(err).NotTo(HaveOccurred())
		count += some
	}
	return count
}

// AdmitsPlaced creates a pod of a Deployment as a dry run, and reports whether the webhook placed it.
func (g Webhook) AdmitsPlaced(ctx context.Context, deployment *appsv1.Deployment) (bool, error) {
	labels := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
	maps.Copy(labels, deployment.Spec.Template.Labels)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, GenerateName: deployment.Name + "-abc-", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment.Name + "-abc", UID: "nobodys",
				Controller: new(true)}},
		},
		Spec: *deployment.Spec.Template.Spec.DeepCopy(),
	}
	err := g.API.Create(ctx, pod, client.DryRunAll)
	return err == nil && IsPlaced(pod), err
}

// IsPlaced reports whether the webhook placed a pod: it set a class, and the nodes that the pod needs.
func IsPlaced(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil &&
		pod.Annotations[v1alpha1.SpreadClass.Key(v1alpha1.Prefix)] != ""
}

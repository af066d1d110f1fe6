// Package testcluster gives suites access to the cluster that KUBECONFIG names and to the operator installed there: clients, kubectl, the
// replica that leads, and reports for failed specs.
//
// It is for Ginkgo suites three folders below the root: errors fail the spec. It keeps no state between calls, and deletes what it creates
// when the spec ends.
package testcluster

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Restricted is the label that makes a namespace refuse every pod below the named standard.
const Restricted = "pod-security.kubernetes.io/enforce"

// A Cluster is accessed as the user of KUBECONFIG.
type Cluster struct {
	Config    *rest.Config
	API       client.WithWatch     // knows the kinds of Kubernetes and ours
	Clientset kubernetes.Interface // for requests that the other client does not support
}

// Require ends a test without a cluster. The command is the one that provides it.
func Require(t *testing.T, command string) {
	t.Helper()
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `" + command + "`, which starts a cluster, or use your own")
	}
}

// Prepare begins every end-to-end suite: it requires a cluster, and sets how long expectations wait.
func Prepare(t *testing.T, patience time.Duration) {
	t.Helper()
	Require(t, "make e2e")
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
}

// Config is how to reach the cluster, without a limit of the client's own: it would only slow tests and measurements.
func Config() *rest.Config {
	GinkgoHelper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	return config
}

// Connect returns clients of the cluster.
func Connect() Cluster {
	GinkgoHelper()
	config := Config()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1alpha1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	core, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return Cluster{config, api, core}
}

// CreateNamespace creates a namespace that refuses every pod below the restricted standard, and deletes it when the spec ends.
func (c Cluster) CreateNamespace(ctx context.Context, prefix string) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix, Labels: map[string]string{Restricted: "restricted"}}}
	Expect(c.API.Create(ctx, namespace)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.API.Delete(ctx, namespace))).To(Succeed()) })
	// A namespace refuses pods until its service account exists, and controllers retry with growing pauses.
	account := client.ObjectKey{Namespace: namespace.Name, Name: "default"}
	Eventually(c.API.Get).WithContext(ctx).WithArguments(account, &corev1.ServiceAccount{}).Should(Succeed())
	return namespace.Name
}

// ProbeImage returns the image of test/cmd/probe.
func ProbeImage() string { return ImageOr("PROBE_IMAGE", "localhost/probe:dev") }

// IdlePod is a pod that does nothing, within the restricted standard.
func IdlePod() corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(2)), EnableServiceLinks: new(false),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "probe", Image: ProbeImage(), ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"sleep"},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}
}

// ImageOr returns the image that the environment names, for clusters that pull images from elsewhere, or else the one that is loaded into
// our own cluster.
func ImageOr(variable, standard string) string {
	return cmp.Or(os.Getenv(variable), standard)
}

// Package testcluster is the cluster that KUBECONFIG names, and the operator that is installed there, as suites see them: how they reach
// it, what a user types, which replica leads, and what to show of a spec that has failed.
//
// It is for suites three folders below the root, while Ginkgo runs them: what cannot be done fails the spec. It remembers nothing between
// calls, and what it makes in a cluster goes when the spec ends.
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

// Restricted is the label that has a namespace refuse every pod below the standard that it names.
const Restricted = "pod-security.kubernetes.io/enforce"

// A Cluster is accessed as the user of KUBECONFIG.
type Cluster struct {
	Config    *rest.Config
	API       client.WithWatch     // knows the kinds of Kubernetes and ours
	Clientset kubernetes.Interface // for what the other client cannot do
}

// Require ends a test that has no cluster. The command is one that brings it.
func Require(t *testing.T, command string) {
	t.Helper()
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `" + command + "`, which brings a cluster, or name one of your own")
	}
}

// Prepare is how all end-to-end suites begin: they need a cluster, and wait for what they expect for as long as patience.
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

// CreateNamespace is a new one that refuses every pod below the restricted standard, and goes when the spec ends.
func (c Cluster) CreateNamespace(ctx context.Context, prefix string) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix, Labels: map[string]string{Restricted: "restricted"}}}
	Expect(c.API.Create(ctx, namespace)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.API.Delete(ctx, namespace))).To(Succeed()) })
	// Until its service account exists, a namespace refuses pods, and controllers retry with growing pauses.
	account := client.ObjectKey{Namespace: namespace.Name, Name: "default"}
	Eventually(c.API.Get).WithContext(ctx).WithArguments(account, &corev1.ServiceAccount{}).Should(Succeed())
	return namespace.Name
}

// ProbeImage is the image of test/cmd/probe, as nodes find it.
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

// ImageOr is what the environment names, for clusters that pull images from elsewhere, else what is loaded into our own.
func ImageOr(variable, standard string) string {
	return cmp.Or(os.Getenv(variable), standard)
}

// Package install proves what `make install` leaves in a cluster: an operator of two replicas that needs no more rights than it says,
// fits into a restricted namespace, leads, answers probes and shows its metrics to those who may see them.
//
// It takes any cluster that KUBECONFIG names, if the operator is installed there, and changes nothing about it. What it makes is in a
// namespace of the spec's own and goes with it.
package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	system  = "swarm-system"
	account = "swarm-operator"
	// restricted is the label that has pods below the restricted standard refused.
	restricted = "pod-security.kubernetes.io/enforce"
)

// Set once, before the first spec.
var (
	server *rest.Config
	known  = runtime.NewScheme()
	api    client.Client
)

func TestInstall(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make install KUBECONFIG=...`, then name the same cluster here")
	}
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "An installed operator")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	server, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		Expect(add(known)).To(Succeed())
	}
	api = clientOf(server)
	Eventually(deployment).WithContext(ctx).Should(HaveField("Status.ReadyReplicas", Equal(int32(2))), "install the operator first: make install KUBECONFIG=...")
})

func clientOf(config *rest.Config) client.Client {
	GinkgoHelper()
	made, err := client.New(config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	return made
}

func deployment(ctx context.Context) (*appsv1.Deployment, error) {
	found := &appsv1.Deployment{}
	return found, api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, found)
}

// replicas are the operator's pods, without those that an installation has just replaced.
func replicas(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	installed, err := deployment(ctx)
	Expect(err).NotTo(HaveOccurred())
	pods := &corev1.PodList{}
	Expect(api.List(ctx, pods, client.InNamespace(system), client.MatchingLabels(installed.Spec.Selector.MatchLabels))).To(Succeed())
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// namespace is one of the spec's own that refuses every pod below the restricted standard.
func namespace(ctx context.Context) string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-install-", Labels: map[string]string{restricted: "restricted"}}}
	Expect(api.Create(ctx, made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, made))).To(Succeed()) })
	return made.Name
}

func fromRoot(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", ".."}, elements...)...)
}

func content(elements ...string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile(fromRoot(elements...))
	Expect(err).NotTo(HaveOccurred())
	return text
}

// kubectl runs the real program, as a user would.
func kubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "kubectl", arguments...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(arguments, " "), out)
	return string(out)
}

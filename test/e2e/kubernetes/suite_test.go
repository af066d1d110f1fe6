// Package kubernetes proves that a cluster is Kubernetes, as far as Swarm Operator leans on it: volumes, names, Services,
// ConfigMaps, evictions, tokens, rights, and nodes that are drained or lose their kubelet.
//
// It takes any cluster that KUBECONFIG names, if two of its nodes run pods and have, or can pull, the image PROBE_IMAGE.
// Each spec works in a namespace of its own that is deleted afterwards. Specs that need more than an API, such as a
// kubelet to kill, run only on our own cluster (DEVCLUSTER_DATA) and are skipped elsewhere. Specs that take a node away
// from the others are Serial.
package kubernetes

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is for a busy machine: on an idle one nothing but the untouched ConfigMap takes a tenth of it.
const patience = time.Minute

// Set once, before the first spec.
var (
	server *rest.Config
	api    client.Client
	nodes  []string // two that run pods; specs that hurt a node hurt the first
)

// namespace is the running spec's own.
var namespace string

func TestKubernetes(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make e2e`, which brings a cluster, or name one of your own")
	}
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Proof that it is Kubernetes", Label("R19"))
}

var _ = BeforeSuite(func(ctx SpecContext) {
	_, err := exec.LookPath("kubectl")
	Expect(err).NotTo(HaveOccurred(), "kubectl is not on the PATH: run `make e2e`, which brings it")
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1 // the client's own limit would only slow the measurements
	server, api = config, clientOf(config)
	nodes = usableNodes(ctx)
	Expect(len(nodes)).To(BeNumerically(">=", 2), "two nodes that run pods: bring up a cluster with `devcluster up --real-nodes 2`")
})

var _ = BeforeEach(func(ctx SpecContext) {
	namespace = createNamespace(ctx)
	DeferCleanup(deleteNamespace, namespace)
})

var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, what := range []string{"pods,persistentvolumeclaims", "events"} {
		seen, err := kubectl(ctx, "get", what, "--namespace", namespace, "--output", "wide")
		if err != nil {
			seen = err.Error()
		}
		GinkgoWriter.Println(seen)
	}
})

func clientOf(config *rest.Config) client.Client {
	made, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	return made
}

// usableNodes are those where an ordinary pod may go: simulated ones and those of a control plane are tainted.
func usableNodes(ctx context.Context) []string {
	all := &corev1.NodeList{}
	Expect(api.List(ctx, all)).To(Succeed())
	var names []string
	for _, node := range all.Items {
		if nodeReady(&node) && !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 {
			names = append(names, node.Name)
		}
	}
	return names
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// createNamespace makes a namespace that refuses every pod below the restricted standard.
func createNamespace(ctx context.Context) string {
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "swarm-e2e-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(api.Create(ctx, made)).To(Succeed())
	// Until its service account is there, a namespace refuses pods.
	Eventually(fetch[*corev1.ServiceAccount]).WithContext(ctx).
		WithArguments(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: made.Name, Name: "default"}}).
		Should(Not(BeNil()))
	return made.Name
}

func deleteNamespace(ctx SpecContext, name string) {
	Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

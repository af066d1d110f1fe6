// Package kubernetes tests that a cluster has the features of Kubernetes that Swarm Operator relies on: volumes, DNS names, Services,
// ConfigMaps, evictions, tokens, rights, and nodes that are drained or lose their kubelet.
//
// It runs on any cluster that KUBECONFIG names, if two of its nodes run pods and have, or can pull, the image PROBE_IMAGE. Each spec has
// its own namespace, which is deleted afterwards. Specs that need more than an API, such as a kubelet to kill, run only on our own cluster
// (DEVCLUSTER_DATA) and are skipped elsewhere. Specs that make a node unavailable to others are Serial.
package kubernetes

import (
	"context"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// timeout is for a busy machine: on an idle one only the untouched ConfigMap takes more than a tenth of it.
const timeout = time.Minute

// Set once, before the first spec.
var (
	cluster testcluster.Cluster
	api     client.Client
	nodes   []string // two that run pods; specs that break a node break the first
)

// namespace is the running spec's own.
var namespace string

func TestKubernetes(t *testing.T) {
	testcluster.Prepare(t, timeout)
	RunSpecs(t, "Proof that it is Kubernetes [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	_, err := exec.LookPath("kubectl")
	Expect(err).NotTo(HaveOccurred(), "kubectl is not on the PATH: run `make e2e`, which brings it")
	cluster = testcluster.Connect()
	api = cluster.API
	nodes = usableNodes(ctx)
	Expect(len(nodes)).To(BeNumerically(">=", 2), "two nodes that run pods: bring up a cluster with `devcluster up --real-nodes 2`")
})

var _ = BeforeEach(func(ctx SpecContext) {
	namespace = cluster.CreateNamespace(ctx, "swarm-e2e-")
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

// usableNodes are the nodes for ordinary pods: simulated ones and those of a control plane are tainted.
func usableNodes(ctx context.Context) []string {
	all := &corev1.NodeList{}
	Expect(api.List(ctx, all)).To(Succeed())
	var names []string
	for _, node := range all.Items {
		if isNodeReady(&node) && !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 {
			names = append(names, node.Name)
		}
	}
	return names
}

func isNodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

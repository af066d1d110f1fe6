// Package install tests what `make install` installs in a cluster: an operator with two replicas that needs no more rights than it
// declares, runs in a restricted namespace, leads, answers probes and serves its metrics to authorized users.
//
// It runs on any cluster that KUBECONFIG names, if the operator is installed there, and does not change the installation. Everything it
// creates is in the spec's own namespace, which is deleted.
package install

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	system  = testcluster.SystemNamespace
	account = "swarm-operator"
)

// Set once, before the first spec.
var (
	cluster testcluster.Cluster
	api     client.Client
)

func TestInstall(t *testing.T) {
	testcluster.Prepare(t, time.Minute)
	RunSpecs(t, "An installed operator [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api = cluster.API
	Eventually(cluster.OperatorDeployment).WithContext(ctx).Should(HaveField("Status.ReadyReplicas", Equal(int32(2))),
		"install the operator first: make install KUBECONFIG=...")
})

// replicas are the operator's pods, without those that an installation has just replaced.
func replicas(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	pods, err := cluster.OperatorPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// namespace is one of the spec's own that refuses every pod below the restricted standard.
func namespace(ctx context.Context) string {
	GinkgoHelper()
	return cluster.CreateNamespace(ctx, "swarm-install-")
}

func content(elements ...string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile(testcluster.FromRoot(elements...))
	Expect(err).NotTo(HaveOccurred())
	return text
}

// Package pool tests worker pools end to end: the operator as `make install` installs it, workers on real nodes in namespaces that enforce
// the restricted standard, and real faults: killed processes, frozen cgroups, pods deleted by force, a restarted API server. The suite
// judges by what workers record themselves, in one file that all of them append to, so that the order of its lines is the order of events.
//
// It runs on any cluster that KUBECONFIG names, if the operator is installed there, its nodes have, or can pull, WORKER_IMAGE and
// PROBE_IMAGE, and its storage class gives volumes that pods on several nodes may write to. Specs that kill or freeze processes run only on
// our own cluster (DEVCLUSTER_DATA) and are skipped elsewhere.
package pool

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// timeout is for a busy machine, and for an operator whose leader has just died.
const timeout = 90 * time.Second

// system is where the operator lives.
const system = testcluster.SystemNamespace

// kubectl runs the real program, as a user would.
var kubectl = testcluster.Kubectl

// Set once, before the first spec.
var (
	cluster testcluster.Cluster
	api     client.Client
	core    kubernetes.Interface // for long watches and for requests to pods, which the other client does not support
)

// env is the running spec's own namespace.
var env *testEnvironment

func TestPool(t *testing.T) {
	testcluster.Prepare(t, timeout)
	RunSpecs(t, "Worker pools on real nodes [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api, core = cluster.API, cluster.Clientset
	cluster.AwaitOperator(ctx)
	if chosen, _ := GinkgoConfiguration(); len(chosen.FocusStrings) == 0 { // a few specs do not last as long as the measurement
		sampleUnnudged(ctx)
	}
})

var _ = BeforeEach(func(ctx SpecContext) { env = open(ctx) })

var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	testcluster.ReportFailure(ctx, env.namespace, "get workerpools,statefulsets,deployments,pods,configmaps --output yaml")
	for _, said := range env.journal(ctx) {
		GinkgoWriter.Println(said)
	}
})

var _ = AfterEach(func(ctx SpecContext) { testcluster.ExpectNoDataRaces(ctx) })

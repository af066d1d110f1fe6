// Package swarm tests swarms end to end: two replicas of the operator as `make install` installs it, agents on real nodes in namespaces
// that enforce the restricted standard, and real faults: killed processes, frozen cgroups, a restarted API server. The suite judges by what
// agents and their code record themselves, not by the status.
//
// It runs on any cluster that KUBECONFIG names, if the operator is installed there and its nodes have, or can pull, PROBE_IMAGE. Specs that
// kill or freeze processes run only on our own cluster (DEVCLUSTER_DATA) and are skipped elsewhere.
package swarm

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// timeout is for a busy machine, and for an operator whose leader has just died.
const timeout = 90 * time.Second

// kubectl runs the real program, as a user would.
var kubectl = testcluster.Kubectl

// Set once, before the first spec.
var (
	cluster testcluster.Cluster
	api     client.WithWatch
)

// namespace is the running spec's own, or that of its Ordered container.
var namespace string

func TestSwarm(t *testing.T) {
	testcluster.Prepare(t, timeout)
	RunSpecs(t, "Swarms on a real node [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api = cluster.API
	cluster.AwaitOperator(ctx)
})

// Specs of an Ordered container share a namespace.
var _ = BeforeEach(OncePerOrdered, func(ctx SpecContext) {
	namespace = cluster.CreateNamespace(ctx, "swarm-e2e-")
	DeferCleanup(func(ctx SpecContext, name string) {
		Expect(client.IgnoreNotFound(api.DeleteAllOf(ctx, &v1alpha1.Swarm{}, client.InNamespace(name)))).To(Succeed())
	}, namespace)
})

var _ = JustAfterEach(func(ctx SpecContext) {
	testcluster.ReportFailure(ctx, namespace, "get swarms,agents,tasks,pods --output wide")
})

var _ = AfterEach(func(ctx SpecContext) {
	testcluster.ExpectNoDataRaces(ctx)
	testcluster.ExpectNoDataRacesIn(ctx, "--namespace", namespace, "--selector", v1alpha1.LabelSwarm, "--container", "agent",
		"--ignore-errors")
})

// Package spread tests on real nodes that workloads are split between spot and on-demand nodes: the operator as `make install` installs it,
// called by the API server through its Service, pods that real kubelets run, and real faults: no operator at all, a killed leader, a
// drained node, certificates renewed while pods are created.
//
// It runs on any cluster that KUBECONFIG names, if the operator is installed there with its default configuration, exactly one node has the
// label karpenter.sh/capacity-type=spot, and the nodes have, or can pull, PROBE_IMAGE. Specs that kill processes run only on our own
// cluster (DEVCLUSTER_DATA) and are skipped elsewhere.
package spread

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
	"github.com/swarm-io/swarm-operator/internal/testkit/webhookprobe"
)

const (
	// timeout is for a busy machine, and for moves that come in steps with pauses between them.
	timeout = 90 * time.Second
	// quietPeriod is how long the suite watches something that must not change.
	quietPeriod = 2 * time.Second
)

// Set once, before the first spec.
var (
	cluster testcluster.Cluster
	api     client.WithWatch
	webhook webhookprobe.Webhook
	nodes   map[string]string // the class of each node
)

// mustKubectl is the output of a kubectl command that must succeed.
var mustKubectl = testcluster.MustKubectl

// namespace is the running spec's own.
var namespace string

func TestSpread(t *testing.T) {
	testcluster.Prepare(t, timeout)
	RunSpecs(t, "Workloads on spot and on-demand nodes [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api, webhook = cluster.API, webhookprobe.Webhook{Cluster: cluster}
	nodes = classes(ctx)
	Expect(spotNode()).NotTo(BeEmpty())
	cluster.AwaitOperator(ctx)
})

var _ = BeforeEach(func(ctx SpecContext) {
	namespace = cluster.CreateNamespace(ctx, "swarm-e2e-spread-")
})

var _ = JustAfterEach(func(ctx SpecContext) {
	testcluster.ReportFailure(ctx, namespace, "get deployments,statefulsets,poddisruptionbudgets --output yaml",
		`get pods --output custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,PHASE:.status.phase,CLASS:.metadata.annotations.swarm\.io/spread-class,NUMBER:.metadata.annotations.swarm\.io/spread-number`)
})

var _ = AfterEach(func(ctx SpecContext) { testcluster.ExpectNoDataRaces(ctx) })

// reportMeasurement shows a number among the results of the spec.
func reportMeasurement(what string, value any) {
	AddReportEntry(what, ReportEntryVisibilityAlways, value)
}

// Package monitoring tests deploy/kustomize/components/monitoring with the real Prometheus Operator and a real Prometheus, added as in
// docs/how-to/alerts.md: both replicas are scraped with a verified certificate and a token that is valid only for that, all alerts are
// loaded, none fires while nothing is wrong, and those about the operator and its webhooks fire and resolve with their causes.
//
// Both programs are tools of test/alerts and run on this machine, Prometheus with the files and the arguments that the Prometheus Operator
// has made for its pod. NetworkPolicies are not tested, because this machine is not a pod. The suite scales the operator down and up again.
// So it runs only on our own cluster (DEVCLUSTER_DATA), and is skipped elsewhere.
package monitoring

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
	"github.com/swarm-io/swarm-operator/internal/testkit/webhookprobe"
)

const (
	timeout = time.Minute
	// quietPeriod is how long the suite watches something that must not change.
	quietPeriod = 5 * time.Second
)

// webhook is set once, before the first spec.
var webhook webhookprobe.Webhook

func TestMonitoring(t *testing.T) {
	testcluster.Prepare(t, timeout)
	RunSpecs(t, "The operator with Prometheus [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	webhook = webhookprobe.ConnectOwn(ctx)
	installKinds(ctx)
	startOperator()
	installPrometheus(ctx)
	applyDocs(ctx)
})

var _ = JustAfterEach(func(ctx SpecContext) {
	testcluster.ReportFailure(ctx, monitoringNamespace, "get prometheuses,statefulsets,configmaps --output yaml")
})

var _ = AfterEach(func(ctx SpecContext) { testcluster.ExpectNoDataRaces(ctx) })

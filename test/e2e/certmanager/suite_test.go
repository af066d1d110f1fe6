// Package certmanager proves that deploy/kustomize/components/cert-manager works with a real cert-manager: the operator in the cluster
// shows the certificate that cert-manager has made, cert-manager alone keeps caBundle, and no pod goes without its place while it renews.
//
// cert-manager is test/certmanager, which runs on this machine. The suite changes how the operator is installed, and leaves it as `make
// install` does; so it is only for our own cluster (DEVCLUSTER_DATA), and skipped elsewhere.
package certmanager

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
	"github.com/swarm-io/swarm-operator/internal/testkit/webhookprobe"
)

const (
	timeout = time.Minute
	// quietPeriod is how long something is watched that must not change.
	quietPeriod = 5 * time.Second
)

// webhook is set once, before the first spec.
var webhook webhookprobe.Webhook

func TestCertManager(t *testing.T) {
	testcluster.Prepare(t, timeout)
	RunSpecs(t, "The operator with cert-manager [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	webhook = webhookprobe.ConnectOwn(ctx)
	installKinds(ctx)
})

var _ = JustAfterEach(func(ctx SpecContext) {
	testcluster.ReportFailure(ctx, testcluster.SystemNamespace,
		"get certificates,certificaterequests,issuers,mutatingwebhookconfigurations --output yaml")
})

var _ = AfterEach(func(ctx SpecContext) { testcluster.ExpectNoDataRaces(ctx) })

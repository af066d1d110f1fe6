// Package certmanager tests deploy/kustomize/components/cert-manager with a real cert-manager: the operator in the cluster serves the
// certificate that cert-manager has issued, only cert-manager writes caBundle, and every pod is placed during renewals.
//
// cert-manager is test/certmanager, which runs on this machine. The suite changes the installation of the operator, and restores it as
// `make install` does. So it runs only on our own cluster (DEVCLUSTER_DATA), and is skipped elsewhere.
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
	// quietPeriod is how long the suite watches something that must not change.
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

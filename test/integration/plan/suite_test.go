// Package plan proves that what `kubectl swarm plan` shows is what the operator does: on a real API server with simulated nodes, both
// programs plan the same generated pools.
package plan

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// suiteLabel labels the only namespace that the suite's operator watches.
const suiteLabel = "plan.suite.swarm.io/namespace"

// Set once, before the first spec.
var (
	api       client.Client
	namespace string
)

func TestPlan(t *testing.T) {
	testcluster.PrepareIntegration(t, 3*time.Minute, 200*time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "kubectl swarm plan and the operator")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	api = testcluster.Connect().API
	testcluster.InstallCRDs(ctx)
	namespace = testcluster.NewNamespace(ctx, api, "swarm-plan-", map[string]string{suiteLabel: "true"})
})

// startOperator starts an operator that leads at once, and returns a function that ends it.
func startOperator() func() {
	GinkgoHelper()
	session := testcluster.StartOperator(namespace,
		"SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {"+suiteLabel+": \"true\"}}",
		"SWARM_CONTROLLER_LEADER_ELECTION_ENABLED=false", "SWARM_METRICS_ENABLED=false", "SWARM_WEBHOOK_ENABLED=false")
	stop := func() { Eventually(session.Terminate()).Should(gexec.Exit(0)) }
	DeferCleanup(stop)
	return stop
}

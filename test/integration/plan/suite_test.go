// Package plan proves that what `kubectl swarm plan` shows is what the operator does: on a real API server with simulated nodes, both
// programs plan the same generated pools.
package plan

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
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
	testcluster.Require(t, "make integration")
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	RunSpecs(t, "kubectl swarm plan and the operator")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	api = testcluster.Connect().API
	testcluster.InstallCRDs(ctx)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-plan-", Labels: map[string]string{suiteLabel: "true"}}}
	Expect(api.Create(ctx, object)).To(Succeed())
	namespace = object.Name
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed()) })
})

// startOperator starts an operator that leads at once, and returns a function that ends it.
func startOperator() func() {
	GinkgoHelper()
	command := exec.Command(testcluster.FromRoot("bin", "swarm-operator"), "--namespace", namespace)
	command.Env = append(os.Environ(),
		"SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {"+suiteLabel+": \"true\"}}",
		"SWARM_CONTROLLER_LEADER_ELECTION_ENABLED=false",
		"SWARM_LINK_PORT="+ports.Free(), "SWARM_HEALTH_PORT="+ports.Free(), "SWARM_API_PORT="+ports.Free(),
		"SWARM_METRICS_ENABLED=false", "SWARM_WEBHOOK_ENABLED=false")
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred(), "run `make build` first")
	stop := func() { Eventually(session.Terminate()).Should(gexec.Exit(0)) }
	DeferCleanup(stop)
	return stop
}

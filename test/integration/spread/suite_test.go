// Package spread tests on a real API server that workloads are split between spot and on-demand nodes, and stay so: the operator is the
// program, with as many replicas as a spec needs, and the API server calls them in turn through a proxy in this process. Scheduler and
// controllers are real; nodes and pods are simulated.
package spread

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// ours labels the namespaces in which the suite's operator works, and the nodes that were created for them.
const ours = "spread.suite.swarm.io/namespace"

// Set once, before the first spec.
var (
	cluster      testcluster.Cluster
	api          client.WithWatch // reads and writes as the user of the cluster
	home         string           // the namespace with the operator's Lease
	replicaFleet *operatorFleet   // the operator
)

func TestSpread(t *testing.T) {
	testcluster.PrepareIntegration(t, 2*time.Minute, 50*time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultConsistentlyDuration(2 * time.Second)
	SetDefaultConsistentlyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Spread")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	testcluster.AuditLog()
	cluster = testcluster.Connect()
	api = cluster.API
	testcluster.InstallCRDs(ctx)
	cordonAll(ctx)
	home = namespace(ctx)
	replicaFleet = startWebhookProxy()
	DeferCleanup(replicaFleet.close)
	install(ctx, replicaFleet)
	replicaFleet.startReplica(ctx)
	DeferCleanup(replicaFleet.stopAll)
	DeferCleanup(deleteAll)
})

// deleteAll removes what specs have created.
func deleteAll(ctx SpecContext) {
	list := &corev1.NamespaceList{}
	Expect(api.List(ctx, list, client.HasLabels{ours})).To(Succeed())
	for n := range list.Items {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &list.Items[n]))).To(Succeed())
	}
	Eventually(func() ([]corev1.Namespace, error) {
		err := api.List(ctx, list, client.HasLabels{ours})
		return list.Items, err
	}).WithPolling(250 * time.Millisecond).Should(BeEmpty())
}

// namespace creates a namespace in which the operator works.
func namespace(ctx context.Context) string {
	GinkgoHelper()
	return testcluster.KeptNamespace(ctx, api, "swarm-spread-", map[string]string{ours: "true"}).Name
}

// reportDuration shows how long something took, among the results of the spec.
func reportDuration(what string, took time.Duration) {
	AddReportEntry(what, ReportEntryVisibilityAlways, fmt.Sprintf("%.1f s", took.Seconds()))
}

// Package pool tests the hand-over of standing jobs on a real API server: the operator is the program, pods are on simulated nodes, and
// their workers are real ones in this process (internal/testkit/fakeworkers), which can be made to fail in every way that the hand-over
// covers.
package pool

import (
	"context"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// suiteLabel labels the namespaces in which the suite's operator works.
const suiteLabel = "pool.suite.swarm.io/namespace"

// Set once, before the first spec.
var (
	api               client.WithWatch // reads and writes as the user of the cluster
	workers           *fakeworkers.WorkerSet
	operatorSession   *gexec.Session // the operator that runs now
	operatorNamespace string         // the namespace with its Lease
)

func TestPool(t *testing.T) {
	testcluster.PrepareIntegration(t, time.Minute, 50*time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultConsistentlyDuration(time.Second)
	SetDefaultConsistentlyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Worker pools")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster := testcluster.Connect()
	api = cluster.API
	testcluster.InstallCRDs(ctx)
	var err error
	workers, err = fakeworkers.Start(context.WithoutCancel(ctx), cluster.Config, testcluster.Log(slog.LevelError))
	Expect(err).NotTo(HaveOccurred())
	operatorNamespace = namespace(ctx)
	startOperator()
})

// Pods go when their workers have ended, so the set of workers is the last to leave.
var _ = AfterSuite(func(ctx SpecContext) {
	if operatorSession != nil {
		operatorSession.Terminate().Wait(20 * time.Second)
	}
	if workers == nil {
		return
	}
	list := &corev1.NamespaceList{}
	Expect(api.List(ctx, list, client.MatchingLabels{suiteLabel: "true"})).To(Succeed())
	for n := range list.Items {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &list.Items[n]))).To(Succeed())
	}
	Eventually(func() ([]corev1.Pod, error) {
		left := &corev1.PodList{}
		err := api.List(ctx, left, client.HasLabels{fakeworkers.Label})
		return left.Items, err
	}).Should(BeEmpty())
	workers.Stop()
})

// startOperator starts the operator. Without an election one that starts leads at once, and what is missed is not repaired by a resync.
func startOperator() {
	GinkgoHelper()
	operatorSession = testcluster.StartOperator(operatorNamespace, testcluster.OnlyLabelled(suiteLabel),
		"SWARM_CONTROLLER_LEADER_ELECTION_ENABLED=false", "SWARM_CONTROLLER_RESYNC_PERIOD=10m", "SWARM_METRICS_ENABLED=false",
		"SWARM_WEBHOOK_ENABLED=false")
}

// stopOperator ends the operator, and begin starts the next one.
func stopOperator() {
	GinkgoHelper()
	Eventually(operatorSession.Terminate()).Should(gexec.Exit(0))
}

// namespace creates a namespace in which the operator works.
func namespace(ctx context.Context) string {
	GinkgoHelper()
	return testcluster.KeptNamespace(ctx, api, "swarm-pool-", map[string]string{suiteLabel: "true"}).Name
}

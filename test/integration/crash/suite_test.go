// Package crash proves that the operator may die anywhere: it is killed right after each single write that it makes, before it receives
// the answer, and must come to the same end as if nothing had happened.
//
// The operator is the real program, built with the race detector when there is a C compiler. A proxy in this process stands between it and
// the API server and counts. Pods are on simulated nodes; their agents and workers are real ones (internal/testkit/fakeagents,
// fakeworkers).
package crash

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// Set once, before the first test.
var (
	cluster testcluster.Cluster
	api     client.Client          // reads and writes as the user of the cluster
	program string                 // the operator
	workers *fakeworkers.WorkerSet // of pools
)

func TestCrash(t *testing.T) {
	testcluster.Require(t, "make integration")
	RegisterFailHandler(Fail)
	RunSpecs(t, "An operator that is killed")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api = cluster.API
	testcluster.InstallCRDs(ctx)
	var err error
	workers, err = fakeworkers.Start(context.WithoutCancel(ctx), cluster.Config, testcluster.Log(slog.LevelError))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(workers.Stop)
	began := time.Now()
	program = build(ctx)
	AddReportEntry("the operator", ReportEntryVisibilityAlways, program+", built in "+time.Since(began).Round(time.Second).String())
})

// build makes an operator that finds its own data races; without a C compiler it is the ordinary one.
func build(ctx context.Context) string {
	if _, err := exec.LookPath("gcc"); err != nil {
		return testcluster.FromRoot("bin", "swarm-operator")
	}
	isRace := testcluster.FromRoot("bin", "race", "swarm-operator")
	command := exec.CommandContext(ctx, "go", "build", "-race", "-o", isRace, testcluster.FromRoot("cmd", "swarm-operator"))
	command.Env = append(os.Environ(), "CGO_ENABLED=1")
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return isRace
}

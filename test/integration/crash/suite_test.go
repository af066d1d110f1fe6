// Package crash tests that the operator may crash at any time: it is killed right after each of its writes, before it receives the
// response, and must reach the same state as without the crash.
//
// The operator is the real program, built with the race detector when there is a C compiler. A proxy in this process is between it and the
// API server, and counts writes. Pods are on simulated nodes; their agents and workers are real (internal/testkit/fakeagents, fakeworkers).
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

// build builds an operator with the race detector, or without it if there is no C compiler.
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

// Package fuzz creates random objects of all kinds for the operator as a program on a real API server. It checks that the operator neither
// panics nor loops, that it reports what it cannot do, and that a namespace with these objects can be deleted.
package fuzz

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// Set once, before the first spec.
var cluster testcluster.Cluster

func TestFuzz(t *testing.T) {
	testcluster.PrepareIntegration(t, time.Minute, 200*time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "The operator and random objects")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	cluster.Config.WarningHandler = nil
	testcluster.InstallCRDs(ctx)
})

// number is a number from the environment.
func number(variable string, byDefault uint64) uint64 {
	GinkgoHelper()
	value, err := strconv.ParseUint(cmp.Or(os.Getenv(variable), strconv.FormatUint(byDefault, 10)), 10, 64)
	Expect(err).NotTo(HaveOccurred(), variable+" is a number")
	return value
}

// An operator is the program, which works in every namespace with its label.
type operator struct {
	session         *gexec.Session
	label           string
	metrics, health string // ports
	started         time.Time
}

// start starts the operator, built with the race detector.
func start(ctx context.Context) operator {
	GinkgoHelper()
	home := namespace(ctx, nil)
	o := operator{label: home, metrics: ports.Free(), health: ports.Free(), started: time.Now()}
	o.session = testcluster.StartProgram(testcluster.FromRoot("bin", "race", "swarm-operator"), home,
		"SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {fuzz: "+o.label+"}}", "SWARM_CONTROLLER_RESYNC_PERIOD="+resync.String(),
		"SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+o.metrics, "SWARM_HEALTH_PORT="+o.health,
		"SWARM_LOGGING_LEVEL=debug", "SWARM_WEBHOOK_ENABLED=false",
		// On a busy machine a Lease may be renewed late. An operator that does not renew it in time exits, which is not tested here.
		"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=4m", "SWARM_LINK_AGENT_LEASE=10m")
	DeferCleanup(func() { o.session.Terminate().Wait(20 * time.Second) })
	return o
}

// namespace is a new one that goes when the spec ends.
func namespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	return testcluster.NewNamespace(ctx, cluster.API, "fuzz-", labels)
}

package operator

import (
	"fmt"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// A writePace is this many writes in that time.
type writePace struct {
	writes  float64
	elapsed time.Duration
}

// isWithin reports whether this burst of writes, and qps per second from then on, allow the pace.
func (p writePace) isWithin(qps, burst float64) bool {
	return p.writes <= burst+qps*p.elapsed.Seconds()+1
}

// slow is few writes per second. What is to be faster makes many writes, so that it is faster on a slow machine, too.
const slow = 4

// Swarms to make, and how many writes they cost at least.
const few, many, writesPerSwarm = 4, 12, 15

// work measures the pace of an operator with these limits, over the first writes for this many new swarms of one namespace. Controllers
// write by PATCH; the Lease, events and reviews, which are not limited, use other methods.
func work(ctx SpecContext, qps, burst, swarms int, settings ...string) writePace {
	GinkgoHelper()
	ns, port := namespace(ctx, nil), ports.Free()
	session := startOperator(append(settings, onlyNamespace(ns), "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false",
		"SWARM_METRICS_PORT="+port,
		fmt.Sprintf("SWARM_CLIENT_QPS=%d", qps), fmt.Sprintf("SWARM_CLIENT_BURST=%d", burst))...)
	Eventually(session.Err).Should(gbytes.Say("Successfully acquired lease"))
	began := time.Now()
	for n := range swarms {
		createSampleNamed(ctx, ns, fmt.Sprintf("research-%d", n))
	}
	var writes float64
	Eventually(func() (float64, error) {
		var err error
		writes, err = series(ctx, port, "rest_client_requests_total", `method="PATCH"`)
		return writes, err
	}).WithTimeout(3 * time.Minute).Should(BeNumerically(">=", swarms*writesPerSwarm))
	done := writePace{writes, time.Since(began)}
	AddReportEntry(fmt.Sprintf("with client.qps %d and client.burst %d", qps, burst), ReportEntryVisibilityAlways,
		fmt.Sprintf("%.0f writes took %.1f s", done.writes, done.elapsed.Seconds()))
	Eventually(session.Terminate()).Should(gexec.Exit(0))
	return done
}

func showQPS(ctx SpecContext) {
	Expect(work(ctx, slow, 30, few).isWithin(slow, 30)).To(BeTrue())
	Expect(work(ctx, 30, 30, many).isWithin(slow, 30)).To(BeFalse())
}

func showBurst(ctx SpecContext) {
	Expect(work(ctx, 1, 1000, many).isWithin(1, 30)).To(BeFalse())
}

// The burst has room for all writes. A namespace that may use little of it goes on at client.qps.
func showRequestShare(ctx SpecContext) {
	Expect(work(ctx, slow, 200, few, "SWARM_LIMITS_REQUEST_SHARE=5").isWithin(slow, 10)).To(BeTrue())
	Expect(work(ctx, 1, 200, few, "SWARM_LIMITS_REQUEST_SHARE=100").isWithin(1, 10)).To(BeFalse())
}

func showConnectionsPerSource(ctx SpecContext) {
	linked := ports.Free()
	showConnections(ctx, linked, "connectionsPerSource", map[int][]string{64: nil, 3: {"SWARM_LIMITS_CONNECTIONS_PER_SOURCE=3"}},
		"SWARM_LINK_PORT="+linked)
}

func showWebhookConnectionsPerSource(ctx SpecContext) {
	asked := ports.Free()
	showConnections(ctx, asked, "webhookConnections", map[int][]string{600: nil, 3: {"SWARM_LIMITS_WEBHOOK_CONNECTIONS_PER_SOURCE=3"}},
		"SWARM_WEBHOOK_ENABLED=true", "SWARM_WEBHOOK_PORT="+asked)
}

// showConnections opens seven connections more than a port takes from one address. They say nothing and come from an address from which
// nothing else does.
func showConnections(ctx SpecContext, to, limit string, settingsOf map[int][]string, always ...string) {
	GinkgoHelper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 3)}}
	for most, settings := range settingsOf {
		metrics := ports.Free()
		session := startOperator(append(append(settings, always...), "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false",
			"SWARM_METRICS_PORT="+metrics)...)
		Eventually(session.Err).Should(gbytes.Say("Successfully acquired lease"))
		for range most + 7 {
			connection, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+to)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(connection.Close)
		}
		Eventually(series).WithContext(ctx).WithArguments(metrics, "swarm_limit_refused_total", `limit="`+limit+`"`).Should(BeEquivalentTo(7))
		Eventually(session.Terminate()).Should(gexec.Exit(0))
	}
}

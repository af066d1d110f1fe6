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

// A pace is so many writes in that time.
type pace struct {
	writes  float64
	elapsed time.Duration
}

// within reports whether so many writes at once, and slow per second from then on, allow the pace.
func (p pace) within(burst float64) bool { return p.writes <= burst+slow*p.elapsed.Seconds()+1 }

const slow = 4 // writes per second

// work is the pace of an operator that was told these limits, over the first writes for new swarms of one namespace. Controllers write by PATCH; the
// Lease, events and reviews, which are not limited, come by other methods.
func work(ctx SpecContext, qps, burst int, settings ...string) pace {
	GinkgoHelper()
	const enough = 60
	in, port := namespace(ctx, nil), ports.Free()
	session := program(append(settings, only(in), "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+port,
		fmt.Sprintf("SWARM_CLIENT_QPS=%d", qps), fmt.Sprintf("SWARM_CLIENT_BURST=%d", burst))...)
	Eventually(session.Err).Should(gbytes.Say("Successfully acquired lease"))
	began := time.Now()
	for n := range 4 {
		named(ctx, in, fmt.Sprintf("research-%d", n))
	}
	var made float64
	Eventually(func() (float64, error) {
		var err error
		made, err = series(ctx, port, "rest_client_requests_total", `method="PATCH"`)
		return made, err
	}).Should(BeNumerically(">=", enough))
	done := pace{made, time.Since(began)}
	AddReportEntry(fmt.Sprintf("with client.qps %d and client.burst %d", qps, burst), ReportEntryVisibilityAlways, fmt.Sprintf("%.0f writes took %.1f s", done.writes, done.elapsed.Seconds()))
	Eventually(session.Terminate()).Should(gexec.Exit(0))
	return done
}

func showQPS(ctx SpecContext) {
	Expect(work(ctx, slow, 30).within(30)).To(BeTrue())
	Expect(work(ctx, 30, 30).within(30)).To(BeFalse())
}

func showBurst(ctx SpecContext) {
	Expect(work(ctx, slow, 1000).within(30)).To(BeFalse())
}

// The burst has room for all writes. A namespace that may use little of it goes on at client.qps.
func showRequestShare(ctx SpecContext) {
	Expect(work(ctx, slow, 200, "SWARM_LIMITS_REQUEST_SHARE=5").within(10)).To(BeTrue())
	Expect(work(ctx, slow, 200, "SWARM_LIMITS_REQUEST_SHARE=100").within(10)).To(BeFalse())
}

func showConnectionsPerSource(ctx SpecContext) {
	for most, settings := range map[int][]string{64: nil, 3: {"SWARM_LIMITS_CONNECTIONS_PER_SOURCE=3"}} {
		metrics, linked := ports.Free(), ports.Free()
		session := program(append(settings, "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+metrics, "SWARM_LINK_PORT="+linked)...)
		Eventually(session.Err).Should(gbytes.Say("Successfully acquired lease"))
		for range most + 7 { // they say nothing
			connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+linked)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(connection.Close)
		}
		Eventually(series).WithContext(ctx).WithArguments(metrics, "swarm_limit_refused_total", `limit="connectionsPerSource"`).Should(BeEquivalentTo(7))
		Eventually(session.Terminate()).Should(gexec.Exit(0))
	}
}

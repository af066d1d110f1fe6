package link_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

func numberedCoder(n int) link.Agent {
	return link.Agent{Namespace: "default", Name: fmt.Sprintf("research-coder-%d", n)}
}

// dialerFrom returns a dialer for a local address, as if it were another pod.
func dialerFrom(source string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
}

func withConnectionsPerSource(limit int) func(*link.Config) {
	return func(c *link.Config) { c.Limits.ConnectionsPerSource = limit }
}

// floodFrom opens silent connections, and holds the admitted ones until the test ends.
func floodFrom(t *testing.T, source string, operator *linktest.Operator, connections int) {
	t.Helper()
	for range connections {
		raw, err := dialerFrom(source).DialContext(t.Context(), "tcp", operator.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Close() })
	}
}

func sourceRefusals(t *testing.T, by *linktest.Operator) int {
	t.Helper()
	return by.MetricSum(t, "swarm_limit_refused_total", "connectionsPerSource")
}

// A flood from one address leaves the places of all others free.
func TestConnectionsOfASourceAreBounded(t *testing.T) {
	const limit, flood = 8, 100
	operator := linktest.Start(t, linktest.NewCA(t), withConnectionsPerSource(limit))
	floodFrom(t, "127.0.0.2", operator, flood)
	linktest.Eventually(t, "the flood is refused", func() bool { return sourceRefusals(t, operator) == flood-limit })
	if got := operator.MetricSum(t, "swarm_link_connections", ""); got != limit {
		t.Errorf("%d connections are open, want %d", got, limit)
	}
	for n := range 2 * limit {
		join(t, operator, numberedCoder(n)) // from 127.0.0.1
	}
	if got := operator.MetricSum(t, "swarm_link_refused_total", "too_many_connections"); got != 0 {
		t.Errorf("%d connections were refused for all sources together", got)
	}
}

// Connections that are closed at once hold no place, but each may cost a handshake.
func TestConnectionsThatComeAndGoAreBounded(t *testing.T) {
	const flood, perSecond, burst = 1000, 256, 512
	operator := linktest.Start(t, linktest.NewCA(t))
	start := time.Now()
	for range flood {
		raw, err := dialerFrom("127.0.0.2").DialContext(t.Context(), "tcp", operator.Address)
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Close()
	}
	admitted, refused := 0, 0
	linktest.Eventually(t, "all connections are judged", func() bool {
		admitted = operator.MetricSum(t, "swarm_link_refused_total", "handshake")
		refused = operator.MetricSum(t, "swarm_limit_refused_total", "handshakesPerSource")
		return admitted+refused+sourceRefusals(t, operator) == flood
	})
	if limit := burst + int(perSecond*time.Since(start).Seconds()) + 1; admitted > limit {
		t.Errorf("%d handshakes, want at most %d", admitted, limit)
	}
	join(t, operator, coder) // from 127.0.0.1
}

// Linked agents need none of the places of their source: any number of them may be behind one address. They leave the places
// to agents that are connecting.
func TestLinkedAgentsDoNotCountForTheirSource(t *testing.T) {
	const agents, limit = 20, 2
	operator := linktest.Start(t, linktest.NewCA(t), withConnectionsPerSource(limit))
	for n := range agents {
		join(t, operator, numberedCoder(n))
	}
	if got := sourceRefusals(t, operator); got != 0 {
		t.Errorf("%d connections were refused", got)
	}
	floodFrom(t, "127.0.0.1", operator, limit+5)
	linktest.Eventually(t, "the flood is refused", func() bool { return sourceRefusals(t, operator) == 5 })
}

// After its stream has ended, a connection is no longer proven. It cannot be kept to hold another place.
func TestConnectionWithoutAStreamCountsForItsSource(t *testing.T) {
	const limit = 3
	operator := linktest.Start(t, linktest.NewCA(t), withConnectionsPerSource(limit))
	for n := range limit {
		agent, _ := join(t, operator, numberedCoder(n))
		operator.AwaitHello(t, n+1)
		if !operator.Disconnect(numberedCoder(n), time.Now()) {
			t.Fatal("not disconnected")
		}
		agent.awaitEnd()
		operator.AwaitLeft(t, n+1)
	}
	linktest.Eventually(t, "the source has no place left", func() bool { return !isAdmitted(t, operator) })
}

// isAdmitted reports whether a silent connection stays open, and closes it.
func isAdmitted(t *testing.T, to *linktest.Operator) bool {
	t.Helper()
	raw, err := net.Dial("tcp", to.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, err = raw.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

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

func coderNumber(n int) link.Agent {
	return link.Agent{Namespace: "default", Name: fmt.Sprintf("research-coder-%d", n)}
}

// from returns a dialer for a local address, as if it were another pod.
func from(source string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
}

func perSource(most int) func(*link.Config) {
	return func(c *link.Config) { c.Limits.ConnectionsPerSource = most }
}

// floodFrom opens silent connections, and holds the admitted ones until the test ends.
func floodFrom(t *testing.T, source string, operator *linktest.Operator, connections int) {
	t.Helper()
	for range connections {
		raw, err := from(source).DialContext(t.Context(), "tcp", operator.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Close() })
	}
}

func refusedForTheirSource(t *testing.T, by *linktest.Operator) int {
	t.Helper()
	return by.Count(t, "swarm_limit_refused_total", "connectionsPerSource")
}

// A flood from one address leaves the places of all others free.
func TestConnectionsOfASourceAreBounded(t *testing.T) {
	const most, flood = 8, 100
	operator := linktest.Start(t, linktest.NewCA(t), perSource(most))
	floodFrom(t, "127.0.0.2", operator, flood)
	linktest.Eventually(t, "the flood is refused", func() bool { return refusedForTheirSource(t, operator) == flood-most })
	if got := operator.Count(t, "swarm_link_connections", ""); got != most {
		t.Errorf("%d connections are open, want %d", got, most)
	}
	for n := range 2 * most {
		join(t, operator, coderNumber(n)) // from 127.0.0.1
	}
	if got := operator.Count(t, "swarm_link_refused_total", "too_many_connections"); got != 0 {
		t.Errorf("%d connections were refused for all sources together", got)
	}
}

// Connections that are closed at once hold no place, but each may cost a handshake.
func TestConnectionsThatComeAndGoAreBounded(t *testing.T) {
	const flood, perSecond, burst = 1000, 256, 512
	operator := linktest.Start(t, linktest.NewCA(t))
	began := time.Now()
	for range flood {
		raw, err := from("127.0.0.2").DialContext(t.Context(), "tcp", operator.Address)
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Close()
	}
	admitted, refused := 0, 0
	linktest.Eventually(t, "all connections are judged", func() bool {
		admitted = operator.Count(t, "swarm_link_refused_total", "handshake")
		refused = operator.Count(t, "swarm_limit_refused_total", "handshakesPerSource")
		return admitted+refused+refusedForTheirSource(t, operator) == flood
	})
	if most := burst + int(perSecond*time.Since(began).Seconds()) + 1; admitted > most {
		t.Errorf("%d handshakes, want at most %d", admitted, most)
	}
	join(t, operator, coder) // from 127.0.0.1
}

// Linked agents need none of the places of their source: any number of them may be behind one address. They leave the places
// to agents that are connecting.
func TestLinkedAgentsDoNotCountForTheirSource(t *testing.T) {
	const agents, most = 20, 2
	operator := linktest.Start(t, linktest.NewCA(t), perSource(most))
	for n := range agents {
		join(t, operator, coderNumber(n))
	}
	if got := refusedForTheirSource(t, operator); got != 0 {
		t.Errorf("%d connections were refused", got)
	}
	floodFrom(t, "127.0.0.1", operator, most+5)
	linktest.Eventually(t, "the flood is refused", func() bool { return refusedForTheirSource(t, operator) == 5 })
}

// After its stream has ended, a connection is no longer proven. It cannot be kept to hold another place.
func TestConnectionWithoutAStreamCountsForItsSource(t *testing.T) {
	const most = 3
	operator := linktest.Start(t, linktest.NewCA(t), perSource(most))
	for n := range most {
		agent, _ := join(t, operator, coderNumber(n))
		operator.AwaitHello(t, n+1)
		if !operator.Disconnect(coderNumber(n), time.Now()) {
			t.Fatal("not disconnected")
		}
		agent.ending()
		operator.AwaitLeft(t, n+1)
	}
	linktest.Eventually(t, "the source has no place left", func() bool { return !isLetIn(t, operator) })
}

// isLetIn reports whether a silent connection stays open, and closes it.
func isLetIn(t *testing.T, to *linktest.Operator) bool {
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

package link

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// fakeListener is a listener that remote addresses connect to.
type fakeListener struct {
	net.Listener
	conns chan net.Conn
}

func (c fakeListener) Accept() (net.Conn, error) {
	conn, open := <-c.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

type fakeConn struct {
	net.Conn
	remoteIP string
}

func (c fakeConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.remoteIP), Port: 1}
}

func (fakeConn) Close() error { return nil }

// acceptAll returns the admitted connections from the remotes.
func acceptAll(t *testing.T, limiter *connLimiter, remotes ...string) (conns []*limitedConn) {
	t.Helper()
	listener := fakeListener{conns: make(chan net.Conn, len(remotes))}
	for _, remote := range remotes {
		listener.conns <- fakeConn{remoteIP: remote}
	}
	close(listener.conns)
	limiter.Listener = listener
	for {
		connection, err := limiter.Accept()
		if err != nil {
			return conns
		}
		conns = append(conns, connection.(*limitedConn))
	}
}

func newTestLimiter(maxConns, perSource int) *connLimiter {
	return newConnLimiter(nil, Config{Limits: Limits{Connections: maxConns, ConnectionsPerSource: perSource}},
		newMetrics(prometheus.NewRegistry()))
}

func TestSourceIsHalfAnIPv6Address(t *testing.T) {
	g := newTestLimiter(100, 2)
	admitted := acceptAll(t, g,
		"fd00::1:0:0:0:1", "fd00::1:0:0:0:2", "fd00::1:0:0:0:3", "fd00::2:0:0:0:1", "10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2")
	if got := len(admitted); got != 6 {
		t.Errorf("%d were let in, want 2 and 1 and 2 and 1", got)
	}
}

// Whatever happens to connections in whatever order, all places are free in the end.
func TestConnectionsAreReleasedOnce(t *testing.T) {
	g := newTestLimiter(100, 2)
	for range 50 {
		admitted := acceptAll(t, g, "10.0.0.1", "10.0.0.1", "10.0.0.1")
		if len(admitted) != 2 {
			t.Fatalf("%d of 3 were let in, want 2", len(admitted))
		}
		first := admitted[0]
		first.setAuthenticated(true)
		first.setAuthenticated(true)
		second := acceptAll(t, g, "10.0.0.1", "10.0.0.1")
		if len(second) != 1 {
			t.Fatalf("%d were let in for the one that is proven, want 1", len(second))
		}
		first.setAuthenticated(false)
		for _, conn := range append(admitted, second...) {
			_ = conn.Close()
			_ = conn.Close()
			conn.setAuthenticated(true) // a stream may end after its connection
			conn.setAuthenticated(false)
		}
		if g.openConns != 0 || g.unauthenticatedTotal != 0 || len(g.unauthenticatedBySource) != 0 {
			t.Fatalf("with no connection left: %d open, %d unproven, sources %v", g.openConns, g.unauthenticatedTotal, g.unauthenticatedBySource)
		}
	}
}

// Agents behind one address kept retrying while no replica led. All of them connect within the rest of their leases.
func TestManyAgentsOfOneSourceConnectInTime(t *testing.T) {
	const places, burst = 64, 512
	const agents, remainingLease, step = 2000, 8750 * time.Millisecond, 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		g := newTestLimiter(10_000, places)
		connectAll := func(waiting int) (connected int) {
			for range waiting {
				for _, connection := range acceptAll(t, g, "10.0.0.1") {
					connection.setAuthenticated(true)
					connected++
				}
			}
			return connected
		}
		if got := connectAll(agents); got != burst {
			t.Fatalf("%d connected at once, want %d", got, burst)
		}
		waiting, start := agents, time.Now()
		for waiting > 0 && time.Since(start) < remainingLease {
			time.Sleep(step)
			waiting -= connectAll(waiting)
		}
		if waiting > 0 {
			t.Errorf("%d agents are not connected after %s", waiting, remainingLease)
		}
	})
}

package link

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// callers is a listener that remote addresses connect to.
type callers struct {
	net.Listener
	come chan net.Conn
}

func (c callers) Accept() (net.Conn, error) {
	came, open := <-c.come
	if !open {
		return nil, net.ErrClosed
	}
	return came, nil
}

type callFrom struct {
	net.Conn
	remote string
}

func (c callFrom) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.remote), Port: 1}
}

func (callFrom) Close() error { return nil }

// dial returns the admitted connections from the remotes.
func dial(t *testing.T, g *gate, remotes ...string) (admitted []*gated) {
	t.Helper()
	listener := callers{come: make(chan net.Conn, len(remotes))}
	for _, remote := range remotes {
		listener.come <- callFrom{remote: remote}
	}
	close(listener.come)
	g.Listener = listener
	for {
		connection, err := g.Accept()
		if err != nil {
			return admitted
		}
		admitted = append(admitted, connection.(*gated))
	}
}

func gateOf(most, perSource int) *gate {
	return newGate(nil, Config{Limits: Limits{Connections: most, ConnectionsPerSource: perSource}}, newMetrics(prometheus.NewRegistry()))
}

func TestSourceIsHalfAnIPv6Address(t *testing.T) {
	g := gateOf(100, 2)
	admitted := dial(t, g,
		"fd00::1:0:0:0:1", "fd00::1:0:0:0:2", "fd00::1:0:0:0:3", "fd00::2:0:0:0:1", "10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2")
	if got := len(admitted); got != 6 {
		t.Errorf("%d were let in, want 2 and 1 and 2 and 1", got)
	}
}

// Whatever happens to connections in whatever order, all places are free in the end.
func TestPlacesAreGivenBackOnce(t *testing.T) {
	g := gateOf(100, 2)
	for range 50 {
		admitted := dial(t, g, "10.0.0.1", "10.0.0.1", "10.0.0.1")
		if len(admitted) != 2 {
			t.Fatalf("%d of 3 were let in, want 2", len(admitted))
		}
		first := admitted[0]
		first.prove(true)
		first.prove(true)
		second := dial(t, g, "10.0.0.1", "10.0.0.1")
		if len(second) != 1 {
			t.Fatalf("%d were let in for the one that is proven, want 1", len(second))
		}
		first.prove(false)
		for _, one := range append(admitted, second...) {
			_ = one.Close()
			_ = one.Close()
			one.prove(true) // a stream may end after its connection
			one.prove(false)
		}
		if g.open != 0 || g.strange != 0 || len(g.unproven) != 0 {
			t.Fatalf("with no connection left: %d open, %d unproven, sources %v", g.open, g.strange, g.unproven)
		}
	}
}

// Agents behind one address kept retrying while no replica led. All of them connect within the rest of their leases.
func TestManyAgentsOfOneSourceConnectInTime(t *testing.T) {
	const places, burst = 64, 512
	const agents, left, step = 2000, 8750 * time.Millisecond, 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(10_000, places)
		tryAll := func(waiting int) (connected int) {
			for range waiting {
				for _, connection := range dial(t, g, "10.0.0.1") {
					connection.prove(true)
					connected++
				}
			}
			return connected
		}
		if got := tryAll(agents); got != burst {
			t.Fatalf("%d connected at once, want %d", got, burst)
		}
		waiting, began := agents, time.Now()
		for waiting > 0 && time.Since(began) < left {
			time.Sleep(step)
			waiting -= tryAll(waiting)
		}
		if waiting > 0 {
			t.Errorf("%d agents are not connected after %s", waiting, left)
		}
	})
}

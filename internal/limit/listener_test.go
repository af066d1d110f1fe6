package limit

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// fakeListener is a listener with connections from these addresses.
type fakeListener struct {
	net.Listener
	remotes []string
}

func (c *fakeListener) Accept() (net.Conn, error) {
	if len(c.remotes) == 0 {
		return nil, net.ErrClosed
	}
	next := c.remotes[0]
	c.remotes = c.remotes[1:]
	return fakeConn{remote: next}, nil
}

type fakeConn struct {
	net.Conn
	remote string
}

func (c fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.remote), Port: 1} }

func (fakeConn) Close() error { return nil }

// acceptAll returns the connections that are accepted, of those from the remotes.
func acceptAll(listener *Listener, remotes ...string) (admitted []net.Conn) {
	listener.Listener = &fakeListener{remotes: remotes}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return admitted
		}
		admitted = append(admitted, connection)
	}
}

func times(count int, remote string) (all []string) {
	for range count {
		all = append(all, remote)
	}
	return all
}

func TestListenerBoundsEachSourceAndAllOfThem(t *testing.T) {
	for name, c := range map[string]struct {
		remotes []string
		want    int
	}{
		"one source":  {times(10, "10.0.0.1"), 3},
		"two sources": {append(times(10, "10.0.0.1"), times(10, "10.0.0.2")...), 6},
		"as many as there is room for": {
			[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8"}, 7,
		},
		"one IPv6 address":         {times(10, "fd00::1:0:0:0:1"), 3},
		"IPv6 addresses of a node": {[]string{"fd00::1:0:0:0:1", "fd00::1:0:0:0:2", "fd00::1:0:0:0:3", "fd00::1:0:0:0:4"}, 4},
	} {
		refusals, refused := newTestRefusals(t)
		bounded := NewListener(nil, ConnectionLimits{PerSource: 3, Total: 7, Limit: WebhookConnections}, refusals)
		if got := len(acceptAll(bounded, c.remotes...)); got != c.want {
			t.Errorf("%s: %d were let in, want %d", name, got, c.want)
		}
		if got := refused(WebhookConnections); got != len(c.remotes)-c.want {
			t.Errorf("%s: %d refusals were counted", name, got)
		}
	}
}

// A few addresses that have all places lose them to others, until each has as many.
func TestSourceWithTheMostConnectionsGivesThemUp(t *testing.T) {
	refusals, refused := newTestRefusals(t)
	listener := NewListener(nil, ConnectionLimits{PerSource: 8, Total: 16, Limit: HealthConnections}, refusals)
	flood := append(acceptAll(listener, times(8, "10.0.0.1")...), acceptAll(listener, times(8, "10.0.0.2")...)...)
	if len(flood) != 16 {
		t.Fatalf("%d of the flood were let in", len(flood))
	}
	if got := len(acceptAll(listener, times(8, "10.0.0.3")...)); got != 5 {
		t.Errorf("%d of a third address were let in, want 5", got)
	}
	for source, want := range map[string][]int{"10.0.0.1": {5, 6}, "10.0.0.2": {5, 6}, "10.0.0.3": {5}} {
		if got := len(listener.connections[source]); !slices.Contains(want, got) {
			t.Errorf("%s has %d, want one of %v", source, got, want)
		}
	}
	if listener.open != 16 || refused(HealthConnections) != 8 {
		t.Errorf("%d are open, %d were closed", listener.open, refused(HealthConnections))
	}
	for _, one := range flood {
		_ = one.Close() // some of them have been closed before
	}
	if listener.open != 5 {
		t.Errorf("%d are open without the flood", listener.open)
	}
}

func TestConnectionsOfAListenerAreReleasedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := NewListener(nil, ConnectionLimits{PerSource: 3, Total: 4}, nil)
		for range 50 {
			admitted := acceptAll(listener, append(times(5, "10.0.0.1"), times(5, "10.0.0.2")...)...)
			if len(admitted) != 5 || listener.open != 4 {
				t.Fatalf("%d were let in, %d are open; want 5, of which 4", len(admitted), listener.open)
			}
			for _, one := range admitted {
				_ = one.Close()
				_ = one.Close()
			}
			if listener.open != 0 || len(listener.connections) != 0 {
				t.Fatalf("with no connection left: %d open, %v", listener.open, listener.connections)
			}
			time.Sleep(time.Second) // for the limit on the rate
		}
	})
}

// Connections that are closed at once hold no place, but each may cost a handshake.
func TestListenerBoundsConnectionsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, admitted := NewListener(nil, ConnectionLimits{PerSource: 100, Total: 1000}, nil), 0
		for range 5000 {
			for _, one := range acceptAll(listener, "10.0.0.1") {
				admitted++
				_ = one.Close()
			}
		}
		if admitted != handshakeBurst*100 {
			t.Errorf("%d were let in at once, want %d", admitted, handshakeBurst*100)
		}
		if got := len(acceptAll(listener, "10.0.0.2")); got != 1 {
			t.Error("another source was refused")
		}
	})
}

package limit

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// callers is a listener with connections from these addresses.
type callers struct {
	net.Listener
	remotes []string
}

func (c *callers) Accept() (net.Conn, error) {
	if len(c.remotes) == 0 {
		return nil, net.ErrClosed
	}
	next := c.remotes[0]
	c.remotes = c.remotes[1:]
	return callFrom{remote: next}, nil
}

type callFrom struct {
	net.Conn
	remote string
}

func (c callFrom) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.remote), Port: 1} }

func (callFrom) Close() error { return nil }

// letIn returns the connections that are accepted, of those from the remotes.
func letIn(to *Listener, remotes ...string) (admitted []net.Conn) {
	to.Listener = &callers{remotes: remotes}
	for {
		connection, err := to.Accept()
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
		refusals, refused := counting(t)
		bounded := NewListener(nil, Connections{PerSource: 3, Total: 7, Limit: WebhookConnections}, refusals)
		if got := len(letIn(bounded, c.remotes...)); got != c.want {
			t.Errorf("%s: %d were let in, want %d", name, got, c.want)
		}
		if got := refused(WebhookConnections); got != len(c.remotes)-c.want {
			t.Errorf("%s: %d refusals were counted", name, got)
		}
	}
}

// A few addresses that have all places lose them to others, until each has as many.
func TestSourceWithTheMostConnectionsGivesThemUp(t *testing.T) {
	refusals, refused := counting(t)
	bounded := NewListener(nil, Connections{PerSource: 8, Total: 16, Limit: HealthConnections}, refusals)
	flood := append(letIn(bounded, times(8, "10.0.0.1")...), letIn(bounded, times(8, "10.0.0.2")...)...)
	if len(flood) != 16 {
		t.Fatalf("%d of the flood were let in", len(flood))
	}
	if got := len(letIn(bounded, times(8, "10.0.0.3")...)); got != 5 {
		t.Errorf("%d of a third address were let in, want 5", got)
	}
	for source, want := range map[string][]int{"10.0.0.1": {5, 6}, "10.0.0.2": {5, 6}, "10.0.0.3": {5}} {
		if got := len(bounded.places[source]); !slices.Contains(want, got) {
			t.Errorf("%s has %d, want one of %v", source, got, want)
		}
	}
	if bounded.open != 16 || refused(HealthConnections) != 8 {
		t.Errorf("%d are open, %d were closed", bounded.open, refused(HealthConnections))
	}
	for _, one := range flood {
		_ = one.Close() // some of them have been closed before
	}
	if bounded.open != 5 {
		t.Errorf("%d are open without the flood", bounded.open)
	}
}

func TestPlacesOfAListenerAreGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bounded := NewListener(nil, Connections{PerSource: 3, Total: 4}, nil)
		for range 50 {
			admitted := letIn(bounded, append(times(5, "10.0.0.1"), times(5, "10.0.0.2")...)...)
			if len(admitted) != 5 || bounded.open != 4 {
				t.Fatalf("%d were let in, %d are open; want 5, of which 4", len(admitted), bounded.open)
			}
			for _, one := range admitted {
				_ = one.Close()
				_ = one.Close()
			}
			if bounded.open != 0 || len(bounded.places) != 0 {
				t.Fatalf("with no connection left: %d open, %v", bounded.open, bounded.places)
			}
			time.Sleep(time.Second) // for the limit on the rate
		}
	})
}

// Connections that are closed at once hold no place, but each may cost a handshake.
func TestListenerBoundsConnectionsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bounded, admitted := NewListener(nil, Connections{PerSource: 100, Total: 1000}, nil), 0
		for range 5000 {
			for _, one := range letIn(bounded, "10.0.0.1") {
				admitted++
				_ = one.Close()
			}
		}
		if admitted != handshakeBurst*100 {
			t.Errorf("%d were let in at once, want %d", admitted, handshakeBurst*100)
		}
		if got := len(letIn(bounded, "10.0.0.2")); got != 1 {
			t.Error("another source was refused")
		}
	})
}

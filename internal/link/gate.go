package link

import (
	"net"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// A gate admits a limited number of connections and closes further ones at once: before TLS, which is the expensive part.
//
// A connection is proven while it carries the stream of an agent whose token was accepted, or belongs to another replica. Before that, and
// after the stream has ended, anyone may hold it. So unproven connections are limited per source, and get at most half of the places. Each
// agent has a few of the other places, whatever its address: many agents behind one address need its places only while they connect. The
// rate of new connections per source is limited as well, proven or not.
type gate struct {
	net.Listener
	most, mostUnproven, mostPerSource int
	metrics                           *metrics
	refusals                          *limit.Refusals

	mu       sync.Mutex
	open     int
	unproven map[string]int // by source
	strange  int            // sum of unproven
	recent   *limit.Handshakes
}

func newGate(listener net.Listener, config Config, metrics *metrics) *gate {
	most := config.Limits.Connections
	return &gate{
		Listener: listener, most: most, mostUnproven: max(1, most/2), mostPerSource: config.Limits.ConnectionsPerSource,
		metrics: metrics, refusals: config.Refusals, unproven: map[string]int{},
		recent: limit.NewHandshakes(config.Limits.ConnectionsPerSource, most),
	}
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		connection, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if source := limit.Source(connection.RemoteAddr()); g.admit(source) {
			g.metrics.transports.Inc()
			return &gated{Conn: connection, gate: g, source: source}, nil
		}
		_ = connection.Close() // without an answer, which would cost more than the connection
	}
}

// admit counts a new connection if there is room for it. A flood is counted, not logged.
func (g *gate) admit(source string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.unproven[source] >= g.mostPerSource:
		g.refusals.Count(limit.ConnectionsPerSource)
		return false
	case g.open >= g.most || g.strange >= g.mostUnproven:
		g.metrics.refuse(refusedConnections)
		return false
	case !g.recent.Allow(source, time.Now()):
		g.refusals.Count(limit.HandshakesPerSource)
		return false
	}
	g.open++
	g.addUnproven(source, 1)
	return true
}

// addUnproven is called with the lock held.
func (g *gate) addUnproven(source string, count int) {
	g.strange += count
	g.unproven[source] += count
	if g.unproven[source] == 0 {
		delete(g.unproven, source)
	}
}

// gated is an admitted connection.
type gated struct {
	net.Conn
	gate   *gate
	source string

	// What follows is guarded by the lock of the gate.
	closed bool
	proven bool
	secure bool // the handshake succeeded
	used   bool // and a stream was opened
}

// prove records whether the owner of this connection is known.
func (c *gated) prove(proven bool) {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.closed || c.proven == proven {
		return
	}
	c.proven = proven
	if proven {
		c.gate.addUnproven(c.source, -1)
	} else {
		c.gate.addUnproven(c.source, 1)
	}
}

func (c *gated) markSecure() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.secure = true
}

// markUsed records that the connection has opened a stream.
func (c *gated) markUsed() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.used = true
}

// Close also counts clients that passed the handshake and never opened a stream: garbage inside TLS reaches no other code of ours.
func (c *gated) Close() error {
	if c.giveUpPlace() {
		c.gate.metrics.refuse(refusedNoStream)
	}
	return c.Conn.Close()
}

// giveUpPlace reports whether the connection was useless.
func (c *gated) giveUpPlace() (useless bool) {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	c.gate.open--
	if !c.proven {
		c.gate.addUnproven(c.source, -1)
	}
	c.gate.metrics.transports.Dec()
	return c.secure && !c.used
}

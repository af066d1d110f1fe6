package link

import (
	"net"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// A connLimiter admits a limited number of connections and closes further ones at once: before TLS, which is the expensive part.
//
// A connection is proven while it carries the stream of an agent whose token was accepted, or belongs to another replica. Before that, and
// after the stream has ended, anyone may hold it. So unproven connections are limited per source, and get at most half of the places. Each
// agent has a few of the other places, whatever its address: many agents behind one address need its places only while they connect. The
// rate of new connections per source is limited as well, proven or not.
type connLimiter struct {
	net.Listener
	maxConns, maxUnauthenticated, maxPerSource int
	metrics                                    *metrics
	refusals                                   *limit.Refusals

	mu                      sync.Mutex
	openConns               int
	unauthenticatedBySource map[string]int // by source
	unauthenticatedTotal    int            // sum of unproven
	handshakes              *limit.Handshakes
}

func newConnLimiter(listener net.Listener, config Config, metrics *metrics) *connLimiter {
	maxConns := config.Limits.Connections
	return &connLimiter{
		Listener: listener, maxConns: maxConns, maxUnauthenticated: max(1, maxConns/2), maxPerSource: config.Limits.ConnectionsPerSource,
		metrics: metrics, refusals: config.Refusals, unauthenticatedBySource: map[string]int{},
		handshakes: limit.NewHandshakes(config.Limits.ConnectionsPerSource, maxConns),
	}
}

func (g *connLimiter) Accept() (net.Conn, error) {
	for {
		connection, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if source := limit.Source(connection.RemoteAddr()); g.admit(source) {
			g.metrics.connections.Inc()
			return &limitedConn{Conn: connection, limiter: g, source: source}, nil
		}
		_ = connection.Close() // without an answer, which would cost more than the connection
	}
}

// admit counts a new connection if there is room for it. A flood is counted, not logged.
func (g *connLimiter) admit(source string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.unauthenticatedBySource[source] >= g.maxPerSource:
		g.refusals.Count(limit.ConnectionsPerSource)
		return false
	case g.openConns >= g.maxConns || g.unauthenticatedTotal >= g.maxUnauthenticated:
		g.metrics.refuse(refusedConnections)
		return false
	case !g.handshakes.Allow(source, time.Now()):
		g.refusals.Count(limit.HandshakesPerSource)
		return false
	}
	g.openConns++
	g.addUnauthenticated(source, 1)
	return true
}

// addUnauthenticated is called with the lock held.
func (g *connLimiter) addUnauthenticated(source string, count int) {
	g.unauthenticatedTotal += count
	g.unauthenticatedBySource[source] += count
	if g.unauthenticatedBySource[source] == 0 {
		delete(g.unauthenticatedBySource, source)
	}
}

// limitedConn is an admitted connection.
type limitedConn struct {
	net.Conn
	limiter *connLimiter
	source  string

	// The following fields are guarded by the lock of the limiter.
	closed        bool
	authenticated bool
	handshakeDone bool // the handshake succeeded
	streamOpened  bool // and a stream was opened
}

// setAuthenticated records whether the owner of this connection is known.
func (c *limitedConn) setAuthenticated(authenticated bool) {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.closed || c.authenticated == authenticated {
		return
	}
	c.authenticated = authenticated
	if authenticated {
		c.limiter.addUnauthenticated(c.source, -1)
	} else {
		c.limiter.addUnauthenticated(c.source, 1)
	}
}

func (c *limitedConn) markHandshakeDone() {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.handshakeDone = true
}

// markStreamOpened records that the connection has opened a stream.
func (c *limitedConn) markStreamOpened() {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.streamOpened = true
}

// Close also counts clients that passed the handshake and never opened a stream: garbage inside TLS reaches no other code of ours.
func (c *limitedConn) Close() error {
	if c.release() {
		c.limiter.metrics.refuse(refusedNoStream)
	}
	return c.Conn.Close()
}

// release reports whether the connection was useless.
func (c *limitedConn) release() (unused bool) {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	c.limiter.openConns--
	if !c.authenticated {
		c.limiter.addUnauthenticated(c.source, -1)
	}
	c.limiter.metrics.connections.Dec()
	return c.handshakeDone && !c.streamOpened
}

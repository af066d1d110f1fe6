package limit

import (
	"net"
	"slices"
	"sync"
	"time"
)

// ConnectionLimits bounds the connections to a port.
type ConnectionLimits struct {
	PerSource int   // that are open at the same time
	Total     int   // of all sources
	Limit     Limit // under which closed connections are counted
}

// A Listener accepts a limited number of connections and closes others at once: before TLS, and before anything is read. It limits how
// many are open, per source and in total, and how many of a source are accepted over time.
//
// A source is a whole address, also for IPv6: a kubelet, an API server and the pods of a node often share the first 64 bits. When all
// places are taken, the oldest connection of the source with the most is closed to admit one of a source with fewer. So a few sources
// cannot lock out others.
type Listener struct {
	net.Listener
	limits   ConnectionLimits
	refusals *Refusals

	mu          sync.Mutex
	open        int
	connections map[string][]*trackedConn // of each source, the oldest first
	handshakes  *Handshakes
}

// NewListener limits the connections of another listener.
func NewListener(listener net.Listener, limits ConnectionLimits, refusals *Refusals) *Listener {
	return &Listener{
		Listener: listener, limits: limits, refusals: refusals, connections: map[string][]*trackedConn{},
		handshakes: NewHandshakes(limits.PerSource, limits.Total),
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &trackedConn{Conn: connection, listener: l, source: addressOf(connection.RemoteAddr())}
		rejected := l.admit(conn)
		if rejected != nil {
			l.refusals.Count(l.limits.Limit)
			_ = rejected.Close()
		}
		if rejected != conn {
			return conn, nil
		}
	}
}

// admit returns the connection to close, if any: the new one, or the one that it replaces.
func (l *Listener) admit(next *trackedConn) (rejected *trackedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.connections[next.source]) >= l.limits.PerSource || !l.handshakes.Allow(next.source, time.Now()) {
		return next
	}
	if l.open >= l.limits.Total {
		rejected = l.oldestOfLargestSource()
		if len(l.connections[rejected.source]) <= len(l.connections[next.source])+1 {
			return next // otherwise the two would only swap
		}
		l.remove(rejected)
	}
	l.open++
	l.connections[next.source] = append(l.connections[next.source], next)
	return rejected
}

// oldestOfLargestSource is called with the lock held, when there is any connection.
func (l *Listener) oldestOfLargestSource() *trackedConn {
	var largest []*trackedConn
	for _, connections := range l.connections {
		if len(connections) > len(largest) {
			largest = connections
		}
	}
	return largest[0]
}

// remove is called with the lock held. It ignores a connection that no longer has a place.
func (l *Listener) remove(conn *trackedConn) {
	connections := l.connections[conn.source]
	at := slices.Index(connections, conn)
	if at < 0 {
		return
	}
	l.open--
	l.connections[conn.source] = slices.Delete(connections, at, at+1)
	if len(connections) == 1 {
		delete(l.connections, conn.source)
	}
}

// A trackedConn is an accepted connection.
type trackedConn struct {
	net.Conn
	listener *Listener
	source   string
}

// Close implements net.Conn.
func (p *trackedConn) Close() error {
	p.listener.mu.Lock()
	p.listener.remove(p)
	p.listener.mu.Unlock()
	return p.Conn.Close()
}

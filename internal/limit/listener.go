package limit

import (
	"net"
	"slices"
	"sync"
	"time"
)

// Connections bounds the connections to a port.
type Connections struct {
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
	bounds   Connections
	refusals *Refusals

	mu     sync.Mutex
	open   int
	places map[string][]*place // of each source, the oldest first
	recent *Handshakes
}

// NewListener limits the connections of another listener.
func NewListener(listener net.Listener, bounds Connections, refusals *Refusals) *Listener {
	return &Listener{
		Listener: listener, bounds: bounds, refusals: refusals, places: map[string][]*place{},
		recent: NewHandshakes(bounds.PerSource, bounds.Total),
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		taken := &place{Conn: connection, listener: l, source: addressOf(connection.RemoteAddr())}
		surplus := l.admit(taken)
		if surplus != nil {
			l.refusals.Count(l.bounds.Limit)
			_ = surplus.Close()
		}
		if surplus != taken {
			return taken, nil
		}
	}
}

// admit returns the connection to close, if any: the new one, or the one that it replaces.
func (l *Listener) admit(next *place) (surplus *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.places[next.source]) >= l.bounds.PerSource || !l.recent.Allow(next.source, time.Now()) {
		return next
	}
	if l.open >= l.bounds.Total {
		surplus = l.oldestOfMost()
		if len(l.places[surplus.source]) <= len(l.places[next.source])+1 {
			return next // otherwise the two would only swap
		}
		l.remove(surplus)
	}
	l.open++
	l.places[next.source] = append(l.places[next.source], next)
	return surplus
}

// oldestOfMost is called with the lock held, when there is any connection.
func (l *Listener) oldestOfMost() *place {
	var most []*place
	for _, each := range l.places {
		if len(each) > len(most) {
			most = each
		}
	}
	return most[0]
}

// remove is called with the lock held. It ignores a connection that no longer has a place.
func (l *Listener) remove(gone *place) {
	of := l.places[gone.source]
	at := slices.Index(of, gone)
	if at < 0 {
		return
	}
	l.open--
	l.places[gone.source] = slices.Delete(of, at, at+1)
	if len(of) == 1 {
		delete(l.places, gone.source)
	}
}

// A place is an accepted connection.
type place struct {
	net.Conn
	listener *Listener
	source   string
}

// Close implements net.Conn.
func (p *place) Close() error {
	p.listener.mu.Lock()
	p.listener.remove(p)
	p.listener.mu.Unlock()
	return p.Conn.Close()
}

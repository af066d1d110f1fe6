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
	Limit     Limit // as which those are counted that are closed
}

// A Listener lets a limited number of connections in and closes others at once: before TLS, and before anything is read. It bounds how
// many are open, of each source and of all, and how many of a source are let in over time.
//
// A source is a whole address, also of IPv6: a kubelet, an API server and the pods of a node often have the same first 64 bits. When all places
// are taken, the oldest connection of the source that has most is closed to admit one of a source that has fewer. So a few sources cannot keep
// out others.
type Listener struct {
	net.Listener
	bounds   Connections
	refusals *Refusals

	mu     sync.Mutex
	open   int
	places map[string][]*place // of each source, the oldest first
	recent *Handshakes
}

// NewListener bounds the connections of another listener.
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

// admit returns the connection that has to be closed, if any: the new one, or one that it takes the place of.
func (l *Listener) admit(next *place) (surplus *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.places[next.source]) >= l.bounds.PerSource || !l.recent.Allow(next.source, time.Now()) {
		return next
	}
	if l.open >= l.bounds.Total {
		surplus = l.oldestOfMost()
		if len(l.places[surplus.source]) <= len(l.places[next.source])+1 {
			return next // it would only be the other way round
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

// remove is called with the lock held. A connection that has no place any more is left alone.
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

// A place is a connection that was let in.
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

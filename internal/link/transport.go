package link

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// A gate lets a limited number of connections through and closes further ones at once: before TLS, which is what costs.
type gate struct {
	net.Listener
	most    int64
	open    atomic.Int64
	metrics *metrics
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		connection, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.open.Add(1) <= g.most {
			g.metrics.transports.Inc()
			return &gated{Conn: connection, gate: g}, nil
		}
		g.open.Add(-1)
		g.metrics.refuse(refusedConnections)
		_ = connection.Close() // nobody is told: an answer would cost more than the question
	}
}

type gated struct {
	net.Conn
	gate   *gate
	once   sync.Once
	secure atomic.Bool // the handshake succeeded
	used   atomic.Bool // and a stream was opened
}

// Close also counts who passed the handshake and never opened a stream: what sends garbage inside TLS reaches no other
// code of ours.
func (c *gated) Close() error {
	c.once.Do(func() {
		c.gate.open.Add(-1)
		c.gate.metrics.transports.Dec()
		if c.secure.Load() && !c.used.Load() {
			c.gate.metrics.refuse(refusedNoStream)
		}
	})
	return c.Conn.Close()
}

// origin is how a stream knows the connection that it came on.
type origin struct {
	credentials.TLSInfo
	connection *gated
}

// markUsed notes that a connection has opened a stream.
func markUsed(stream context.Context) {
	if from, known := peer.FromContext(stream); known {
		if came, ours := from.AuthInfo.(origin); ours {
			came.connection.used.Store(true)
		}
	}
}

// countedTLS counts handshakes that fail, and sends peers on to where they are expected.
type countedTLS struct {
	credentials.TransportCredentials
	metrics *metrics
	peers   *vestibule // nil: nobody is expected
}

func newTLS(config Config, metrics *metrics, peers *vestibule) credentials.TransportCredentials {
	shown := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: config.Certificates.Certificate}
	if peers != nil {
		shown = knowing(shown, config.Peers)
	}
	return &countedTLS{TransportCredentials: credentials.NewTLS(shown), metrics: metrics, peers: peers}
}

// ServerHandshake is asked by gRPC for every connection.
func (t *countedTLS) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		t.metrics.refuse(refusedHandshake)
		return nil, nil, err
	}
	secured, isTLS := info.(credentials.TLSInfo)
	from, isOurs := raw.(*gated)
	if !isTLS || !isOurs {
		return connection, info, nil
	}
	from.secure.Store(true)
	if t.peers != nil && len(secured.State.VerifiedChains) > 0 {
		from.used.Store(true)
		return nil, nil, t.peers.receive(proven{connection, secured})
	}
	return connection, origin{secured, from}, nil
}

// Clone keeps the count in copies.
func (t *countedTLS) Clone() credentials.TransportCredentials {
	return &countedTLS{TransportCredentials: t.TransportCredentials.Clone(), metrics: t.metrics, peers: t.peers}
}

package link

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// origin lets a stream find the connection that it belongs to.
type origin struct {
	credentials.TLSInfo
	connection *gated
	meter      *meter
}

// connectionOfStream returns nil if the connection is not one of ours.
func connectionOfStream(stream context.Context) *gated {
	if from, known := peer.FromContext(stream); known {
		if came, ours := from.AuthInfo.(origin); ours {
			return came.connection
		}
	}
	return nil
}

// meterOfStream returns nil if the connection is not one of ours.
func meterOfStream(stream context.Context) *meter {
	if from, known := peer.FromContext(stream); known {
		if came, ours := from.AuthInfo.(origin); ours {
			return came.meter
		}
	}
	return nil
}

// markUsed records that a connection has opened a stream.
func markUsed(stream context.Context) {
	if came := connectionOfStream(stream); came != nil {
		came.markUsed()
	}
}

// markProven records that a stream's connection belongs to an agent, until the returned function is called.
func markProven(stream context.Context) (until func()) {
	came := connectionOfStream(stream)
	if came == nil {
		return func() {}
	}
	came.prove(true)
	return func() { came.prove(false) }
}

// sourceOfStream returns the source address of a stream.
func sourceOfStream(stream context.Context) string {
	if from, known := peer.FromContext(stream); known {
		return limit.Source(from.Addr)
	}
	return ""
}

// countedTLS counts failed handshakes, and hands peers over to their own server.
type countedTLS struct {
	credentials.TransportCredentials
	metrics   *metrics
	receiving *budget
	peers     *vestibule // nil: no peers are expected
}

func newTLS(config Config, metrics *metrics, receiving *budget, peers *vestibule) credentials.TransportCredentials {
	shown := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: config.Certificates.Certificate}
	if peers != nil {
		shown = knowing(shown, config.Peers)
	}
	return &countedTLS{TransportCredentials: credentials.NewTLS(shown), metrics: metrics, receiving: receiving, peers: peers}
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
	from.markSecure()
	if t.peers != nil && len(secured.State.VerifiedChains) > 0 {
		from.markUsed()
		from.prove(true)
		return nil, nil, t.peers.receive(proven{connection, secured})
	}
	metered := newMeter(connection, t.receiving, from.source, func() { t.metrics.refuse(refusedReceived) })
	return metered, origin{secured, from, metered}, nil
}

// Clone keeps the count in copies.
func (t *countedTLS) Clone() credentials.TransportCredentials {
	return &countedTLS{TransportCredentials: t.TransportCredentials.Clone(), metrics: t.metrics, receiving: t.receiving, peers: t.peers}
}

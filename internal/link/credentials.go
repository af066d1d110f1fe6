package link

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// connInfo lets a stream find the connection that it belongs to.
type connInfo struct {
	credentials.TLSInfo
	limited *limitedConn
	metered *meteredConn
}

// limitedConnFromContext returns nil if the connection is not one of ours.
func limitedConnFromContext(ctx context.Context) *limitedConn {
	if remote, ok := peer.FromContext(ctx); ok {
		if info, isOurs := remote.AuthInfo.(connInfo); isOurs {
			return info.limited
		}
	}
	return nil
}

// meteredConnFromContext returns nil if the connection is not one of ours.
func meteredConnFromContext(ctx context.Context) *meteredConn {
	if remote, ok := peer.FromContext(ctx); ok {
		if info, isOurs := remote.AuthInfo.(connInfo); isOurs {
			return info.metered
		}
	}
	return nil
}

// markStreamOpened records that a connection has opened a stream.
func markStreamOpened(ctx context.Context) {
	if conn := limitedConnFromContext(ctx); conn != nil {
		conn.markStreamOpened()
	}
}

// markAuthenticated records that a stream's connection belongs to an agent, until the returned function is called.
func markAuthenticated(ctx context.Context) (undo func()) {
	conn := limitedConnFromContext(ctx)
	if conn == nil {
		return func() {}
	}
	conn.setAuthenticated(true)
	return func() { conn.setAuthenticated(false) }
}

// sourceFromContext returns the source address of a stream.
func sourceFromContext(ctx context.Context) string {
	if remote, ok := peer.FromContext(ctx); ok {
		return limit.Source(remote.Addr)
	}
	return ""
}

// transportCredentials counts failed handshakes, and hands peers over to their own server.
type transportCredentials struct {
	credentials.TransportCredentials
	metrics       *metrics
	receiveBudget *memoryBudget
	peers         *peerServer // nil: no peers are expected
}

func newTransportCredentials(config Config, metrics *metrics, receiveBudget *memoryBudget,
	peers *peerServer) credentials.TransportCredentials {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: config.Certificates.Certificate}
	if peers != nil {
		tlsConfig = withClientCAs(tlsConfig, config.Peers)
	}
	return &transportCredentials{TransportCredentials: credentials.NewTLS(tlsConfig), metrics: metrics, receiveBudget: receiveBudget,
		peers: peers}
}

// ServerHandshake is called by gRPC for every connection.
func (t *transportCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connection, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		t.metrics.refuse(refusedHandshake)
		return nil, nil, err
	}
	tlsInfo, isTLS := info.(credentials.TLSInfo)
	limited, isOurs := raw.(*limitedConn)
	if !isTLS || !isOurs {
		return connection, info, nil
	}
	limited.markHandshakeDone()
	if t.peers != nil && len(tlsInfo.State.VerifiedChains) > 0 {
		limited.markStreamOpened()
		limited.setAuthenticated(true)
		return nil, nil, t.peers.handOver(verifiedConn{connection, tlsInfo})
	}
	metered := newMeteredConn(connection, t.receiveBudget, limited.source, func() { t.metrics.refuse(refusedReceived) })
	return metered, connInfo{tlsInfo, limited, metered}, nil
}

// Clone keeps the count in copies.
func (t *transportCredentials) Clone() credentials.TransportCredentials {
	return &transportCredentials{TransportCredentials: t.TransportCredentials.Clone(), metrics: t.metrics, receiveBudget: t.receiveBudget,
		peers: t.peers}
}

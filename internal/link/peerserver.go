package link

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// maxPeerStreams is how many calls one replica may have open at once. Agents have one stream each, which would have calls of a replica wait
// for each other.
const maxPeerStreams = 1000

// A peerServer is a separate server for other replicas behind the same port. They are recognized by the certificate that they
// show in the TLS handshake, and are handed over after it.
type peerServer struct {
	server   *grpc.Server
	serving  sync.WaitGroup
	incoming chan verifiedConn
	address  net.Addr

	closeOnce sync.Once
	closed    chan struct{}
}

// verifiedConn is a connection whose certificate was verified.
type verifiedConn struct {
	net.Conn
	tlsInfo credentials.TLSInfo
}

// startPeerServer returns nil if no peers are expected. Idle connections stay open: otherwise the next call would wait for a new one.
func (s *Server) startPeerServer(address net.Addr) *peerServer {
	if !s.config.Peers.enabled() {
		return nil
	}
	limits := s.config.Limits
	p := &peerServer{incoming: make(chan verifiedConn), address: address, closed: make(chan struct{})}
	p.server = grpc.NewServer(
		grpc.Creds(verifiedConnCredentials{credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13})}),
		grpc.MaxRecvMsgSize(limits.FrameBytes), grpc.MaxSendMsgSize(limits.FrameBytes),
		grpc.MaxConcurrentStreams(maxPeerStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(limits.HelloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPingInterval, PermitWithoutStream: true}),
	)
	s.config.Peers.Register(p.server)
	p.serving.Go(func() { _ = p.server.Serve(p) }) // ends by stop, and by nothing else
	return p
}

// stop lets open calls finish.
func (p *peerServer) stop() {
	if p == nil {
		return
	}
	gracefulStop(p.server)
	p.serving.Wait()
}

// handOver hands a connection over. The error it returns tells gRPC that the connection no longer belongs to its first server.
func (p *peerServer) handOver(conn verifiedConn) error {
	select {
	case p.incoming <- conn:
		return credentials.ErrConnDispatched
	case <-p.closed:
		_ = conn.Close()
		return net.ErrClosed
	}
}

// Accept implements net.Listener.
func (p *peerServer) Accept() (net.Conn, error) {
	select {
	case conn := <-p.incoming:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *peerServer) Close() error {
	p.closeOnce.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *peerServer) Addr() net.Addr { return p.address }

// verifiedConnCredentials are the credentials of connections that have already completed their handshake.
type verifiedConnCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake is called by gRPC for every connection.
func (verifiedConnCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, isVerified := raw.(verifiedConn)
	if !isVerified {
		return nil, nil, errors.New("the connection has shown no certificate")
	}
	return conn.Conn, conn.tlsInfo, nil
}

// Clone keeps copies from being what they embed.
func (s verifiedConnCredentials) Clone() credentials.TransportCredentials { return s }

// withClientCAs verifies the certificate of a caller that shows one, against the current CAs. Sessions are not resumed: a resumed
// session could rest on a CA that is no longer trusted.
func withClientCAs(config *tls.Config, peers Peers) *tls.Config {
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		current := config.Clone()
		current.GetConfigForClient = nil
		current.ClientAuth, current.ClientCAs = tls.VerifyClientCertIfGiven, peers.ClientCAs(hello.Context())
		return current, nil
	}
	return config
}

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

// peerStreams is how many calls one replica may have open at once. Agents have one stream each, which would have calls of a replica wait
// for each other.
const peerStreams = 1000

// A vestibule is a separate server for other replicas behind the same port. They are recognized by the certificate that they
// show in the TLS handshake, and are handed over after it.
type vestibule struct {
	server *grpc.Server
	served sync.WaitGroup
	arrive chan proven
	at     net.Addr

	once   sync.Once
	closed chan struct{}
}

// proven is a connection whose certificate was verified.
type proven struct {
	net.Conn
	info credentials.TLSInfo
}

// openVestibule returns nil if no peers are expected. Idle connections stay open: otherwise the next call would wait for a new one.
func (s *Server) openVestibule(at net.Addr) *vestibule {
	if !s.config.Peers.wanted() {
		return nil
	}
	limits := s.config.Limits
	v := &vestibule{arrive: make(chan proven), at: at, closed: make(chan struct{})}
	v.server = grpc.NewServer(
		grpc.Creds(shaken{credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13})}),
		grpc.MaxRecvMsgSize(limits.FrameBytes), grpc.MaxSendMsgSize(limits.FrameBytes),
		grpc.MaxConcurrentStreams(peerStreams),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.ConnectionTimeout(limits.HelloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingAtMostEvery, PermitWithoutStream: true}),
	)
	s.config.Peers.Register(v.server)
	v.served.Go(func() { _ = v.server.Serve(v) }) // ends by stop, and by nothing else
	return v
}

// stop lets open calls finish.
func (v *vestibule) stop() {
	if v == nil {
		return
	}
	gently(v.server)
	v.served.Wait()
}

// receive hands a connection over. The error it returns tells gRPC that the connection no longer belongs to its first server.
func (v *vestibule) receive(came proven) error {
	select {
	case v.arrive <- came:
		return credentials.ErrConnDispatched
	case <-v.closed:
		_ = came.Close()
		return net.ErrClosed
	}
}

// Accept implements net.Listener.
func (v *vestibule) Accept() (net.Conn, error) {
	select {
	case came := <-v.arrive:
		return came, nil
	case <-v.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (v *vestibule) Close() error {
	v.once.Do(func() { close(v.closed) })
	return nil
}

// Addr implements net.Listener.
func (v *vestibule) Addr() net.Addr { return v.at }

// shaken are the credentials of connections that have already completed their handshake.
type shaken struct {
	credentials.TransportCredentials
}

// ServerHandshake is asked by gRPC for every connection.
func (shaken) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	came, isProven := raw.(proven)
	if !isProven {
		return nil, nil, errors.New("the connection has shown no certificate")
	}
	return came.Conn, came.info, nil
}

// Clone keeps copies from being what they embed.
func (s shaken) Clone() credentials.TransportCredentials { return s }

// knowing verifies the certificate of a caller that shows one, against the current CAs. Sessions are not resumed: a resumed
// session could rest on a CA that is no longer trusted.
func knowing(config *tls.Config, peers Peers) *tls.Config {
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now := config.Clone()
		now.GetConfigForClient = nil
		now.ClientAuth, now.ClientCAs = tls.VerifyClientCertIfGiven, peers.Authority(hello.Context())
		return now, nil
	}
	return config
}

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

// A vestibule is where other replicas are received: a server of their own behind the same port. They are told from agents by the
// certificate that they have shown when their connection was made, and are handed over then.
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

// openVestibule is nil when nobody is expected. A kept connection is not closed for being quiet: whoever asks next would wait for a new one.
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

// stop lets calls end that are open.
func (v *vestibule) stop() {
	if v == nil {
		return
	}
	gently(v.server)
	v.served.Wait()
}

// receive hands a connection over. What it returns is for gRPC: the connection is no longer that server's.
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

// shaken are the credentials of connections that have theirs behind them.
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

// knowing verifies the certificate of a caller that shows one, against the CAs of that moment. Sessions are not resumed: who resumes one
// would be known by a CA that may be trusted no more.
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

package link

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const (
	// Pings find dead connections, and keep middleboxes from forgetting quiet ones.
	pingInterval, pingTimeout = 10 * time.Second, 5 * time.Second
	// Agents may ping this often; more often is abuse.
	minClientPingInterval = 3 * time.Second
	// A connection without a stream is useless.
	idleTimeout = 30 * time.Second
	// How long streams may take to end when the server stops.
	stopTimeout = 2 * time.Second
	// Streams are many and quiet: small buffers matter more than a few saved calls.
	streamBufferBytes = 4 << 10
	// How much a stream may send before it is read, besides the message that is being read. By default, gRPC lets it grow to
	// 16 MiB for an agent that sends fast. gRPC accepts no smaller window.
	streamWindowBytes = 64 << 10
	// A projected token has about 1 KiB.
	maxHeaderBytes = 16 << 10
)

// A Server is the operator's end of the link.
type Server struct {
	linkv1.UnimplementedLinkServer

	config        Config
	metrics       *metrics
	registry      *registry
	queueLimiter  *namespaceByteLimiter
	receiveBudget *memoryBudget
}

// New returns a server. It accepts no connections before Serve.
func New(config Config) (*Server, error) {
	if config.Certificates == nil || config.Authenticator == nil || config.Leadership == nil || config.Events == nil ||
		config.Leases == nil || config.Ready == nil || config.Metrics == nil {
		return nil, errors.New("make link server: certificates, authenticator, leadership, events, leases, ready and metrics are needed")
	}
	config.Limits = config.Limits.withDefaults()
	return &Server{
		config:        config,
		metrics:       newMetrics(config.Metrics),
		registry:      newRegistry(config.Limits),
		queueLimiter:  newNamespaceByteLimiter(config.Limits.QueueBytesPerNamespace),
		receiveBudget: newMemoryBudget(config.Limits.ReceivedBytes),
	}, nil
}

// Serve accepts connections until the context ends; then it says goodbye to every agent.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	peers := s.startPeerServer(listener.Addr())
	server := grpc.NewServer(s.options(peers)...)
	linkv1.RegisterLinkServer(server, s)
	if peers != nil {
		s.config.Peers.Register(server)
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.shutDown(server, peers)
	})
	err := server.Serve(newConnLimiter(listener, s.config, s.metrics))
	if !stop() {
		<-stopped
		return nil
	}
	server.Stop()
	peers.stop()
	return err
}

func (s *Server) options(peers *peerServer) []grpc.ServerOption {
	limits := s.config.Limits
	return []grpc.ServerOption{
		grpc.Creds(newTransportCredentials(s.config, s.metrics, s.receiveBudget, peers)),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(limits.FrameBytes),
		grpc.MaxSendMsgSize(limits.FrameBytes),
		grpc.MaxConcurrentStreams(1),
		grpc.ReadBufferSize(streamBufferBytes), grpc.WriteBufferSize(streamBufferBytes),
		grpc.StaticStreamWindowSize(streamWindowBytes), grpc.StaticConnWindowSize(streamWindowBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(limits.HelloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPingInterval, PermitWithoutStream: true}),
	}
}

func (s *Server) shutDown(server *grpc.Server, peers *peerServer) {
	for _, sess := range s.registry.all() {
		sess.end(&streamError{grpcStatus: status.Error(codes.Unavailable, "this operator stops: connect again")})
	}
	var group sync.WaitGroup
	group.Go(func() { gracefulStop(server) })
	group.Go(peers.stop)
	group.Wait()
}

// gracefulStop stops a server that has ended its sessions, and does not wait for streams that stay.
func gracefulStop(server *grpc.Server) {
	timer := time.AfterFunc(stopTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}

// Send queues a message for an agent. It never waits, and success does not mean that the agent has received it: an Assign is
// known to have arrived by its Progress, its Result or the next Hello.
func (s *Server) Send(agent Agent, message *linkv1.OperatorMessage) error {
	sess := s.registry.session(agent)
	if sess == nil {
		s.metrics.drop(droppedNotLinked)
		return ErrNotLinked
	}
	return sess.send(message)
}

// LastHeard returns when the last Hello or Heartbeat of an agent was received, with a monotonic reading, or false if it was
// not heard for a long time. Its lease is over when this time plus the lease, plus a margin for clocks, has passed.
func (s *Server) LastHeard(agent Agent) (time.Time, bool) { return s.registry.lastHeard(agent) }

// Disconnect ends the stream of an agent that was not heard since the given time: before its lease is counted out, or to send
// it another lease when it reconnects. No echo follows. It returns false if the agent was heard since.
func (s *Server) Disconnect(agent Agent, unheardSince time.Time) bool {
	sess := s.registry.session(agent)
	if sess == nil {
		return true
	}
	wasHeardSince := func() bool {
		last, ok := s.registry.lastHeard(agent)
		return ok && last.After(unheardSince)
	}
	return sess.endUnless(wasHeardSince, newAbortedError(refusedEnded, "the operator ended this stream: connect again"))
}

// Linked reports whether the agent has a stream now.
func (s *Server) Linked(agent Agent) bool { return s.registry.session(agent) != nil }

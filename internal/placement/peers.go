package placement

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"sigs.k8s.io/controller-runtime/pkg/log"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/spread"
)

const (
	// forLeader limits how long the leader may take; it may have to wait for its cache or for CPU. The API server waits 2 s. An estimate
	// is quicker, but pods may have to be moved for it later.
	forLeader = time.Second
	// Pings find a dead connection before it is needed. The leader allows them this often.
	pingEvery, pingTimeout = 10 * time.Second, 5 * time.Second
)

// A leader that does not answer is retried soon: until then every number is an estimate.
var redial = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 2 * time.Second,
}

// Peers are this replica and the leader.
type Peers struct {
	Own     Asker                                      // used while this replica leads, and when the leader does not answer
	Leading func() bool                                // whether this replica leads
	Leader  func() string                              // the address of the leader's link, "" while unknown
	TLS     func(context.Context) (*tls.Config, error) // the client configuration, read for each connection
	Metrics prometheus.Registerer
}

// A Switchboard forwards requests to the leader, which alone assigns numbers. If the leader does not answer in time, it estimates, and
// the controller corrects that later. It is safe for concurrent use.
type Switchboard struct {
	Peers
	forLeader time.Duration
	answers   *prometheus.CounterVec

	lock sync.Mutex
	line line
}

// A line is the connection to a leader, kept until the address changes.
type line struct {
	address    string
	connection *grpc.ClientConn
}

// NewSwitchboard connects to the leader only when it is first used.
func NewSwitchboard(peers Peers) *Switchboard {
	return &Switchboard{
		Peers: peers, forLeader: forLeader,
		answers: promauto.With(peers.Metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_placement_answers_total", Help: "Answers to where a pod goes, by who gave them (leader, estimate).",
		}, []string{"by"}),
	}
}

// Place implements Asker.
func (s *Switchboard) Place(ctx context.Context, ask Ask) (Answer, error) {
	if s.Leading() {
		s.answers.WithLabelValues("leader").Inc()
		return s.Own.Place(ctx, ask)
	}
	answer, err := s.ask(ctx, ask)
	if err == nil {
		s.answers.WithLabelValues("leader").Inc()
		return answer, nil
	}
	s.answers.WithLabelValues("estimate").Inc()
	log.FromContext(ctx).V(1).Info("the leader did not say where the pod goes: it is an estimate", "reason", err.Error())
	return s.Own.Place(ctx, ask)
}

// ask sends a request to the leader.
func (s *Switchboard) ask(ctx context.Context, ask Ask) (Answer, error) {
	connection, err := s.connect(s.Leader())
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.forLeader)
	defer cancel()
	said, err := linkv1.NewPlacementClient(connection).Place(ctx, &linkv1.PlaceRequest{
		Kind: string(ask.Workload.Kind), Namespace: ask.Workload.Namespace, Name: ask.Workload.Name,
		Hash: ask.Hash, Pod: ask.Pod, Request: ask.Request, DryRun: ask.DryRun,
	})
	if err != nil {
		return Answer{}, err
	}
	return understood(said)
}

// understood rejects answers that only a later version can give.
func understood(said *linkv1.PlaceResponse) (Answer, error) {
	answer := Answer{Managed: said.GetManaged(), Number: int(said.GetNumber()), Class: spread.Class(said.GetClass())}
	if answer.Managed && answer.Class != spread.Spot && answer.Class != spread.OnDemand {
		return Answer{}, fmt.Errorf("the leader speaks of class %q", answer.Class)
	}
	return answer, nil
}

// connect returns the connection to an address, replacing one to another address. It does not block.
func (s *Switchboard) connect(address string) (*grpc.ClientConn, error) {
	if address == "" {
		return nil, errors.New("no leader is known")
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.line.address == address {
		return s.line.connection, nil
	}
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(fresh{credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13}), s.TLS}),
		grpc.WithConnectParams(redial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithIdleTimeout(0), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("call leader at %s: %w", address, err)
	}
	s.hangUp()
	s.line = line{address, connection}
	return connection, nil
}

// Close closes the connection, if there is one. Later requests open a new one.
func (s *Switchboard) Close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.hangUp()
}

func (s *Switchboard) hangUp() {
	if s.line.connection != nil {
		_ = s.line.connection.Close() // fails only when it is closed already
	}
	s.line = line{}
}

// fresh reads the credentials at each handshake: certificates and CAs change while the operator runs.
type fresh struct {
	credentials.TransportCredentials
	config func(context.Context) (*tls.Config, error)
}

// ClientHandshake is called by gRPC for every connection. The leader is dialed by its address, and verified by the name that all
// replicas share.
func (f fresh) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.config(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("call leader: %w", err)
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, config.ServerName, raw)
}

// Clone makes copies keep this type, not only the embedded credentials.
func (f fresh) Clone() credentials.TransportCredentials {
	return fresh{f.TransportCredentials.Clone(), f.config}
}

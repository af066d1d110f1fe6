package allocator

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
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

const (
	// defaultLeaderTimeout limits how long the leader may take; it may have to wait for its cache or for CPU. The API server waits 2 s. An
	// estimate is quicker, but pods may have to be moved for it later.
	defaultLeaderTimeout = time.Second
	// Pings find a dead connection before it is needed. The leader allows them this often.
	pingInterval, pingTimeout = 10 * time.Second, 5 * time.Second
)

// A leader that does not answer is retried soon: until then every number is an estimate.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 2 * time.Second,
}

// LeaderClientOptions are this replica and the leader.
type LeaderClientOptions struct {
	Local   Placer                                     // used while this replica leads, and when the leader does not answer
	Leading func() bool                                // whether this replica leads
	Leader  func() string                              // the address of the leader's link, "" while unknown
	TLS     func(context.Context) (*tls.Config, error) // the client configuration, read for each connection
	Metrics prometheus.Registerer
}

// A LeaderClient forwards requests to the leader, which alone assigns numbers. If the leader does not answer in time, it estimates, and
// the controller corrects that later. It is safe for concurrent use.
type LeaderClient struct {
	LeaderClientOptions
	leaderTimeout time.Duration
	answers       *prometheus.CounterVec

	lock    sync.Mutex
	current leaderConnection
}

// A leaderConnection is the connection to a leader, kept until the address changes.
type leaderConnection struct {
	address    string
	connection *grpc.ClientConn
}

// NewLeaderClient connects to the leader only when it is first used.
func NewLeaderClient(options LeaderClientOptions) *LeaderClient {
	return &LeaderClient{
		LeaderClientOptions: options, leaderTimeout: defaultLeaderTimeout,
		answers: promauto.With(options.Metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "swarm_placement_answers_total", Help: "Placements of pods by source (leader, estimate).",
		}, []string{"by"}),
	}
}

// Place implements Placer.
func (c *LeaderClient) Place(ctx context.Context, request Request) (Placement, error) {
	if c.Leading() {
		c.answers.WithLabelValues("leader").Inc()
		return c.Local.Place(ctx, request)
	}
	placement, err := c.placeOnLeader(ctx, request)
	if err == nil {
		c.answers.WithLabelValues("leader").Inc()
		return placement, nil
	}
	c.answers.WithLabelValues("estimate").Inc()
	log.FromContext(ctx).V(1).Info("no placement from the leader: using an estimate", "reason", err.Error())
	return c.Local.Place(ctx, request)
}

// placeOnLeader sends a request to the leader.
func (c *LeaderClient) placeOnLeader(ctx context.Context, request Request) (Placement, error) {
	connection, err := c.connect(c.Leader())
	if err != nil {
		return Placement{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.leaderTimeout)
	defer cancel()
	response, err := linkv1.NewPlacementClient(connection).Place(ctx, &linkv1.PlaceRequest{
		Kind: string(request.Workload.Kind), Namespace: request.Workload.Namespace, Name: request.Workload.Name,
		Hash: request.TemplateHash, Pod: request.PodName, Request: request.UID, DryRun: request.DryRun,
	})
	if err != nil {
		return Placement{}, err
	}
	return parseResponse(response)
}

// parseResponse rejects answers that only a later version can give.
func parseResponse(said *linkv1.PlaceResponse) (Placement, error) {
	placement := Placement{Managed: said.GetManaged(), Number: int(said.GetNumber()), Class: split.Class(said.GetClass())}
	if placement.Managed && placement.Class != split.Spot && placement.Class != split.OnDemand {
		return Placement{}, fmt.Errorf("the leader returned unknown class %q", placement.Class)
	}
	return placement, nil
}

// connect returns the connection to an address, replacing one to another address. It does not block.
func (c *LeaderClient) connect(address string) (*grpc.ClientConn, error) {
	if address == "" {
		return nil, errors.New("no leader is known")
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.current.address == address {
		return c.current.connection, nil
	}
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(reloadingCredentials{credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13}), c.TLS}),
		grpc.WithConnectParams(connectParams),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithIdleTimeout(0), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("call leader at %s: %w", address, err)
	}
	c.closeConnection()
	c.current = leaderConnection{address, connection}
	return connection, nil
}

// Close closes the connection, if there is one. Later requests open a new one.
func (c *LeaderClient) Close() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.closeConnection()
}

func (c *LeaderClient) closeConnection() {
	if c.current.connection != nil {
		_ = c.current.connection.Close() // fails only when it is closed already
	}
	c.current = leaderConnection{}
}

// reloadingCredentials reads the credentials at each handshake: certificates and CAs change while the operator runs.
type reloadingCredentials struct {
	credentials.TransportCredentials
	config func(context.Context) (*tls.Config, error)
}

// ClientHandshake is called by gRPC for every connection. The leader is dialed by its address, and verified by the name that all
// replicas share.
func (c reloadingCredentials) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := c.config(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("call leader: %w", err)
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, config.ServerName, raw)
}

// Clone makes copies keep this type, not only the embedded credentials.
func (c reloadingCredentials) Clone() credentials.TransportCredentials {
	return reloadingCredentials{c.TransportCredentials.Clone(), c.config}
}

package link_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// A placementServer answers peers. Each call waits until all calls that the test has announced are there.
type placementServer struct {
	linkv1.UnimplementedPlacementServer
	barrier sync.WaitGroup
	calls   atomic.Int32
}

func (b *placementServer) Place(ctx context.Context, _ *linkv1.PlaceRequest) (*linkv1.PlaceResponse, error) {
	from, _ := peer.FromContext(ctx)
	if info, known := from.AuthInfo.(credentials.TLSInfo); !known || len(info.State.VerifiedChains) == 0 {
		return nil, status.Error(codes.Unauthenticated, "who are you?")
	}
	b.calls.Add(1)
	b.barrier.Done()
	b.barrier.Wait()
	return &linkv1.PlaceResponse{Managed: true}, nil
}

// withPeers has an operator trust the CAs that are in the pool at that moment.
func withPeers(b *placementServer, trusted *x509.CertPool) func(*link.Config) {
	return func(c *link.Config) {
		c.Peers = link.Peers{
			ClientCAs: func(context.Context) *x509.CertPool { return trusted },
			Register:  func(to grpc.ServiceRegistrar) { linkv1.RegisterPlacementServer(to, b) },
		}
	}
}

// newPeerClient returns a client of the operator that shows these certificates.
func newPeerClient(t *testing.T, operator *linktest.Operator, certificates ...tls.Certificate) linkv1.PlacementClient {
	t.Helper()
	config := operator.ClientTLS()
	config.Certificates = certificates
	connection, err := grpc.NewClient("passthrough:///"+operator.Address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return linkv1.NewPlacementClient(connection)
}

func TestPeersAreKnownByTheirCertificate(t *testing.T) {
	ca, other := linktest.NewCA(t), linktest.NewCA(t)
	b := &placementServer{}
	operator := linktest.Start(t, ca, withPeers(b, ca.Pool))
	for _, c := range []struct {
		reason  string
		shows   []tls.Certificate
		code    codes.Code
		refused int // handshakes
	}{
		{"one of ours", []tls.Certificate{ca.Peer}, codes.OK, 0},
		{"none", nil, codes.Unauthenticated, 0},
		{"another CA's", []tls.Certificate{other.Peer}, codes.Unavailable, 1},
	} {
		b.barrier.Add(1)
		_, err := newPeerClient(t, operator, c.shows...).Place(t.Context(), &linkv1.PlaceRequest{})
		if status.Code(err) != c.code {
			t.Errorf("%s: %v", c.reason, err)
		}
		if c.code != codes.OK {
			b.barrier.Done()
		}
		// The client completes its handshake before the server has checked its certificate.
		counted := func(context.Context) (bool, error) {
			return (operator.MetricSum(t, "swarm_link_refused_total", "handshake") > 0) == (c.refused > 0), nil
		}
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, counted); err != nil {
			t.Errorf("%s: as many as %d handshakes should have failed: %v", c.reason, c.refused, err)
		}
	}
}

// A CA that is added while the server runs is known at the next connection.
func TestPeersFollowTheAuthority(t *testing.T) {
	ca, next := linktest.NewCA(t), linktest.NewCA(t)
	trusted := x509.NewCertPool()
	b := &placementServer{}
	operator := linktest.Start(t, ca, withPeers(b, trusted))
	if _, err := newPeerClient(t, operator, next.Peer).Place(t.Context(), &linkv1.PlaceRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("before: %v", err)
	}
	trusted.AppendCertsFromPEM(next.PEM)
	b.barrier.Add(1)
	if _, err := newPeerClient(t, operator, next.Peer).Place(t.Context(), &linkv1.PlaceRequest{}); err != nil {
		t.Errorf("after: %v", err)
	}
}

// Agents have one stream per connection; calls of peers must not wait for earlier ones.
func TestPeersCallConcurrently(t *testing.T) {
	const callCount = 100
	ca, b := linktest.NewCA(t), &placementServer{}
	operator := linktest.Start(t, ca, withPeers(b, ca.Pool))
	client := newPeerClient(t, operator, ca.Peer)
	b.barrier.Add(callCount)
	var calls sync.WaitGroup
	for range callCount {
		calls.Go(func() {
			if _, err := client.Place(t.Context(), &linkv1.PlaceRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if got := operator.MetricSum(t, "swarm_link_connections", ""); got != 1 {
		t.Errorf("%d connections", got)
	}
}

func TestAgentsAreServedAlongsidePeers(t *testing.T) {
	ca, b := linktest.NewCA(t), &placementServer{}
	operator := linktest.Start(t, ca, withPeers(b, ca.Pool))
	c, _ := join(t, operator, coder)
	b.barrier.Add(1)
	if _, err := newPeerClient(t, operator, ca.Peer).Place(t.Context(), &linkv1.PlaceRequest{}); err != nil {
		t.Error(err)
	}
	c.send(t, heartbeat(1))
	if got := c.receive(t).GetEcho().GetSequence(); got != 1 {
		t.Errorf("echo %d", got)
	}
}

// The link is for agents: peers cannot use it.
func TestPeersHaveNoLink(t *testing.T) {
	ca := linktest.NewCA(t)
	operator := linktest.Start(t, ca, withPeers(&placementServer{}, ca.Pool))
	config := operator.ClientTLS()
	config.Certificates = []tls.Certificate{ca.Peer}
	connection, err := grpc.NewClient("passthrough:///"+operator.Address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	stream, err := linkv1.NewLinkClient(connection).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

func TestStoppingWaitsForOpenCalls(t *testing.T) {
	ca, b := linktest.NewCA(t), &placementServer{}
	operator := linktest.Start(t, ca, withPeers(b, ca.Pool))
	b.barrier.Add(2)
	answered := make(chan error)
	go func() {
		_, err := newPeerClient(t, operator, ca.Peer).Place(t.Context(), &linkv1.PlaceRequest{})
		answered <- err
	}()
	linktest.Eventually(t, "the call is there", func() bool { return b.calls.Load() == 1 })
	stopped := make(chan struct{})
	go func() { operator.Stop(); close(stopped) }()
	linktest.Eventually(t, "no replica is let in", func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", operator.Address)
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	})
	b.barrier.Done()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-stopped
}

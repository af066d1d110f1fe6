package allocator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

var (
	testRequest = Request{
		Workload:     workload.Key{Kind: v1alpha1.WorkloadDeployment, NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}},
		TemplateHash: "abc", PodName: "web-abc-1", UID: "r1", DryRun: true,
	}
	leaderPlacement = Placement{Managed: true, Number: 7, Class: split.Spot}
	localPlacement  = Placement{Managed: true, Number: 3, Class: split.OnDemand}
)

// A fakePlacer is a Placer that always gives the same answer.
type fakePlacer struct {
	placement Placement
	err       error
	hangs     bool // does not answer until the caller gives up
	panics    bool // panics

	lock     sync.Mutex
	requests []Request
}

func (o *fakePlacer) Place(ctx context.Context, ask Request) (Placement, error) {
	o.lock.Lock()
	o.requests = append(o.requests, ask)
	o.lock.Unlock()
	if o.panics {
		panic("oh")
	}
	if o.hangs {
		<-ctx.Done()
		return Placement{}, ctx.Err()
	}
	return o.placement, o.err
}

func (o *fakePlacer) received() []Request {
	o.lock.Lock()
	defer o.lock.Unlock()
	return slices.Clone(o.requests)
}

// startLeader starts a replica that serves others while it leads.
func startLeader(t *testing.T, ca *linktest.CA, local Placer) *linktest.Operator {
	t.Helper()
	return linktest.Start(t, ca, func(c *link.Config) {
		leading := c.Leadership
		c.Peers = link.Peers{
			ClientCAs: func(context.Context) *x509.CertPool { return ca.Pool },
			Register: func(to grpc.ServiceRegistrar) {
				RegisterServer(to, local, func() bool { _, leads := leading.Leading(); return leads })
			},
		}
	})
}

// newFollower returns a replica that does not lead, with a certificate of that CA.
func newFollower(t *testing.T, ca *linktest.CA, local Placer, leader func() string) *LeaderClient {
	t.Helper()
	s := NewLeaderClient(LeaderClientOptions{
		Local: local, Leading: func() bool { return false }, Leader: leader,
		TLS: func(context.Context) (*tls.Config, error) {
			return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Peer},
				ServerName: linktest.ServerName}, nil
		},
	})
	s.leaderTimeout = time.Minute // a loaded machine may take longer than the API server would
	t.Cleanup(s.Close)
	return s
}

func addressOf(address string) func() string { return func() string { return address } }

func mustPlaceWith(t *testing.T, s *LeaderClient) Placement {
	t.Helper()
	placement, err := s.Place(t.Context(), testRequest)
	if err != nil {
		t.Fatal(err)
	}
	return placement
}

func TestLeaderPlacesPods(t *testing.T) {
	ca, leader, own := linktest.NewCA(t), &fakePlacer{placement: leaderPlacement}, &fakePlacer{placement: localPlacement}
	operator := startLeader(t, ca, leader)
	s := newFollower(t, ca, own, addressOf(operator.Address))
	for range 3 {
		if got := mustPlaceWith(t, s); got != leaderPlacement {
			t.Errorf("got %+v", got)
		}
	}
	if !slices.Equal(leader.received(), []Request{testRequest, testRequest, testRequest}) || len(own.received()) > 0 {
		t.Errorf("the leader received %+v, the local allocator %+v", leader.received(), own.received())
	}
	if got := operator.MetricSum(t, "swarm_link_connections", ""); got != 1 {
		t.Errorf("%d connections", got)
	}
}

func TestLeaderPlacesLocally(t *testing.T) {
	own := &fakePlacer{placement: leaderPlacement}
	s := NewLeaderClient(LeaderClientOptions{Local: own, Leading: func() bool { return true },
		Leader: func() string { panic("asked who leads") }})
	if got := mustPlaceWith(t, s); got != leaderPlacement {
		t.Errorf("got %+v", got)
	}
}

func TestFallbackToLocalEstimate(t *testing.T) {
	ca := linktest.NewCA(t)
	for _, c := range []struct {
		reason   string
		leader   *fakePlacer
		shows    *linktest.CA
		deposed  bool
		unknown  bool
		patience time.Duration
		code     codes.Code
	}{
		{reason: "silent", leader: &fakePlacer{hangs: true}, shows: ca, patience: defaultLeaderTimeout, code: codes.DeadlineExceeded},
		{reason: "leads no more", leader: &fakePlacer{placement: leaderPlacement}, shows: ca, deposed: true, code: codes.FailedPrecondition},
		{reason: "cannot read its cache", leader: &fakePlacer{err: errors.New("no cache")}, shows: ca, code: codes.Internal},
		{reason: "panics, and lives", leader: &fakePlacer{panics: true}, shows: ca, code: codes.Internal},
		{reason: "speaks of a class from the future", leader: &fakePlacer{placement: Placement{Managed: true, Class: "lunar"}}, shows: ca,
			code: codes.Unknown},
		{reason: "has another CA", leader: &fakePlacer{placement: leaderPlacement}, shows: linktest.NewCA(t), code: codes.Unavailable},
		{reason: "is not known", leader: &fakePlacer{placement: leaderPlacement}, shows: ca, unknown: true, code: codes.Unknown},
	} {
		t.Run(c.reason, func(t *testing.T) {
			operator, own := startLeader(t, ca, c.leader), &fakePlacer{placement: localPlacement}
			if c.deposed {
				operator.Leader.Follow("elsewhere:1")
			}
			address := operator.Address
			if c.unknown {
				address = ""
			}
			s := newFollower(t, c.shows, own, addressOf(address))
			if c.patience > 0 {
				s.leaderTimeout = c.patience
			}
			if got := mustPlaceWith(t, s); got != localPlacement || !slices.Equal(own.received(), []Request{testRequest}) {
				t.Errorf("got %+v of %+v", got, own.received())
			}
			if _, err := s.placeOnLeader(t.Context(), testRequest); status.Code(err) != c.code {
				t.Errorf("the reason is %v", err)
			}
		})
	}
}

// The local allocator may use all the time that the API server gives, not only what the leader has left of it.
func TestEstimateHasItsOwnDeadline(t *testing.T) {
	ca := linktest.NewCA(t)
	s := newFollower(t, ca, deadlinePlacer{}, addressOf(startLeader(t, ca, &fakePlacer{hangs: true}).Address))
	s.leaderTimeout = time.Millisecond
	mustPlaceWith(t, s)
}

type deadlinePlacer struct{}

func (deadlinePlacer) Place(ctx context.Context, _ Request) (Placement, error) {
	return Placement{}, ctx.Err()
}

func TestNewLeaderIsUsed(t *testing.T) {
	ca, own := linktest.NewCA(t), &fakePlacer{placement: localPlacement}
	former := startLeader(t, ca, &fakePlacer{placement: Placement{Managed: true, Number: 1, Class: split.Spot}})
	next := startLeader(t, ca, &fakePlacer{placement: leaderPlacement})
	address := former.Address
	s := newFollower(t, ca, own, func() string { return address })
	if got := mustPlaceWith(t, s); got.Number != 1 {
		t.Errorf("the former said %+v", got)
	}
	address = next.Address
	if got := mustPlaceWith(t, s); got != leaderPlacement {
		t.Errorf("the next said %+v", got)
	}
	linktest.Eventually(t, "the connection to the former is gone",
		func() bool { return former.MetricSum(t, "swarm_link_connections", "") == 0 })
}

func TestBrokenConnectionIsReplaced(t *testing.T) {
	ca := linktest.NewCA(t)
	operator := startLeader(t, ca, &fakePlacer{placement: leaderPlacement})
	network := linktest.NewNetwork(t, operator.Address)
	s := newFollower(t, ca, &fakePlacer{placement: localPlacement}, addressOf(network.Address))
	for range 3 {
		linktest.Eventually(t, "the leader is asked", func() bool { return mustPlaceWith(t, s) == leaderPlacement })
		network.Cut()
	}
}

// Certificates are read for each connection, not once.
func TestCertificateThatComesLater(t *testing.T) {
	ca := linktest.NewCA(t)
	s := newFollower(t, ca, &fakePlacer{placement: localPlacement},
		addressOf(startLeader(t, ca, &fakePlacer{placement: leaderPlacement}).Address))
	soon, known := s.TLS, false
	s.TLS = func(ctx context.Context) (*tls.Config, error) {
		if known {
			return soon(ctx)
		}
		known = true
		return nil, errors.New("no certificate yet")
	}
	if got := mustPlaceWith(t, s); got != localPlacement {
		t.Errorf("without certificate: %+v", got)
	}
	linktest.Eventually(t, "the leader is asked", func() bool { return mustPlaceWith(t, s) == leaderPlacement })
}

func TestServerRejects(t *testing.T) {
	ca := linktest.NewCA(t)
	for _, c := range []struct {
		reason  string
		kind    string
		shows   []tls.Certificate
		deposed bool
		code    codes.Code
	}{
		{"nothing", "Deployment", []tls.Certificate{ca.Peer}, false, codes.OK},
		{"who shows no certificate", "Deployment", nil, false, codes.Unauthenticated},
		{"who asks another than the leader", "StatefulSet", []tls.Certificate{ca.Peer}, true, codes.FailedPrecondition},
		{"who asks about something else", "Job", []tls.Certificate{ca.Peer}, false, codes.InvalidArgument},
	} {
		t.Run(c.reason, func(t *testing.T) {
			own := &fakePlacer{placement: leaderPlacement}
			operator := startLeader(t, ca, own)
			if c.deposed {
				operator.Leader.Follow("elsewhere:1")
			}
			config := operator.ClientTLS()
			config.Certificates = c.shows
			connection, err := grpc.NewClient("passthrough:///"+operator.Address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			_, err = linkv1.NewPlacementClient(connection).Place(t.Context(), &linkv1.PlaceRequest{Kind: c.kind})
			if status.Code(err) != c.code || len(own.received()) > 0 != (c.code == codes.OK) {
				t.Errorf("asked about %v: %v", own.received(), err)
			}
		})
	}
}

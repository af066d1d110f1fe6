package placement

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
	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

var (
	question = Ask{
		Workload: survey.Key{Kind: v1alpha1.WorkloadDeployment, NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}},
		Hash:     "abc", Pod: "web-abc-1", Request: "r1", DryRun: true,
	}
	exact    = Answer{Managed: true, Number: 7, Class: spread.Spot}
	estimate = Answer{Managed: true, Number: 3, Class: spread.OnDemand}
)

// An oracle is an Asker that always gives the same answer.
type oracle struct {
	says  Answer
	fails error
	mute  bool // does not answer until the caller gives up
	mad   bool // panics

	lock  sync.Mutex
	asked []Ask
}

func (o *oracle) Place(ctx context.Context, ask Ask) (Answer, error) {
	o.lock.Lock()
	o.asked = append(o.asked, ask)
	o.lock.Unlock()
	if o.mad {
		panic("oh")
	}
	if o.mute {
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
	return o.says, o.fails
}

func (o *oracle) questions() []Ask {
	o.lock.Lock()
	defer o.lock.Unlock()
	return slices.Clone(o.asked)
}

// leads starts a replica that serves others while it leads.
func leads(t *testing.T, ca *linktest.CA, own Asker) *linktest.Operator {
	t.Helper()
	return linktest.Start(t, ca, func(c *link.Config) {
		leading := c.Leadership
		c.Peers = link.Peers{
			ClientCAs: func(context.Context) *x509.CertPool { return ca.Pool },
			Register: func(to grpc.ServiceRegistrar) {
				Serve(to, own, func() bool { _, leads := leading.Leading(); return leads })
			},
		}
	})
}

// follower is a replica that does not lead, and has a certificate of that CA.
func follower(t *testing.T, ca *linktest.CA, own Asker, leader func() string) *Switchboard {
	t.Helper()
	s := NewSwitchboard(Peers{
		Own: own, Leading: func() bool { return false }, Leader: leader,
		TLS: func(context.Context) (*tls.Config, error) {
			return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Peer}, ServerName: linktest.ServerName}, nil
		},
	})
	s.forLeader = time.Minute // a loaded machine may take longer than the API server would
	t.Cleanup(s.Close)
	return s
}

func at(address string) func() string { return func() string { return address } }

func answered(t *testing.T, s *Switchboard) Answer {
	t.Helper()
	answer, err := s.Place(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestLeaderSaysWherePodsGo(t *testing.T) {
	ca, leader, own := linktest.NewCA(t), &oracle{says: exact}, &oracle{says: estimate}
	operator := leads(t, ca, leader)
	s := follower(t, ca, own, at(operator.Address))
	for range 3 {
		if got := answered(t, s); got != exact {
			t.Errorf("got %+v", got)
		}
	}
	if !slices.Equal(leader.questions(), []Ask{question, question, question}) || len(own.questions()) > 0 {
		t.Errorf("the leader was asked %+v, the own desk %+v", leader.questions(), own.questions())
	}
	if got := operator.MetricSum(t, "swarm_link_connections", ""); got != 1 {
		t.Errorf("%d connections", got)
	}
}

func TestWhoLeadsAsksNobody(t *testing.T) {
	own := &oracle{says: exact}
	s := NewSwitchboard(Peers{Own: own, Leading: func() bool { return true }, Leader: func() string { panic("asked who leads") }})
	if got := answered(t, s); got != exact {
		t.Errorf("got %+v", got)
	}
}

func TestEstimateWhenTheLeaderDoesNotSay(t *testing.T) {
	ca := linktest.NewCA(t)
	for _, c := range []struct {
		reason   string
		leader   *oracle
		shows    *linktest.CA
		deposed  bool
		unknown  bool
		patience time.Duration
		code     codes.Code
	}{
		{reason: "silent", leader: &oracle{mute: true}, shows: ca, patience: forLeader, code: codes.DeadlineExceeded},
		{reason: "leads no more", leader: &oracle{says: exact}, shows: ca, deposed: true, code: codes.FailedPrecondition},
		{reason: "cannot read its cache", leader: &oracle{fails: errors.New("no cache")}, shows: ca, code: codes.Internal},
		{reason: "panics, and lives", leader: &oracle{mad: true}, shows: ca, code: codes.Internal},
		{reason: "speaks of a class from the future", leader: &oracle{says: Answer{Managed: true, Class: "lunar"}}, shows: ca, code: codes.Unknown},
		{reason: "has another CA", leader: &oracle{says: exact}, shows: linktest.NewCA(t), code: codes.Unavailable},
		{reason: "is not known", leader: &oracle{says: exact}, shows: ca, unknown: true, code: codes.Unknown},
	} {
		t.Run(c.reason, func(t *testing.T) {
			operator, own := leads(t, ca, c.leader), &oracle{says: estimate}
			if c.deposed {
				operator.Leader.Follow("elsewhere:1")
			}
			address := operator.Address
			if c.unknown {
				address = ""
			}
			s := follower(t, c.shows, own, at(address))
			if c.patience > 0 {
				s.forLeader = c.patience
			}
			if got := answered(t, s); got != estimate || !slices.Equal(own.questions(), []Ask{question}) {
				t.Errorf("got %+v of %+v", got, own.questions())
			}
			if _, err := s.ask(t.Context(), question); status.Code(err) != c.code {
				t.Errorf("the reason is %v", err)
			}
		})
	}
}

// The own desk may use all the time that the API server gives, not only what the leader has left of it.
func TestEstimateIsNotHurried(t *testing.T) {
	ca := linktest.NewCA(t)
	s := follower(t, ca, hurried{}, at(leads(t, ca, &oracle{mute: true}).Address))
	s.forLeader = time.Millisecond
	answered(t, s)
}

type hurried struct{}

func (hurried) Place(ctx context.Context, _ Ask) (Answer, error) { return Answer{}, ctx.Err() }

func TestNextLeaderIsAsked(t *testing.T) {
	ca, own := linktest.NewCA(t), &oracle{says: estimate}
	former := leads(t, ca, &oracle{says: Answer{Managed: true, Number: 1, Class: spread.Spot}})
	next := leads(t, ca, &oracle{says: exact})
	address := former.Address
	s := follower(t, ca, own, func() string { return address })
	if got := answered(t, s); got.Number != 1 {
		t.Errorf("the former said %+v", got)
	}
	address = next.Address
	if got := answered(t, s); got != exact {
		t.Errorf("the next said %+v", got)
	}
	linktest.Eventually(t, "the connection to the former is gone", func() bool { return former.MetricSum(t, "swarm_link_connections", "") == 0 })
}

func TestBrokenConnectionIsReplaced(t *testing.T) {
	ca := linktest.NewCA(t)
	operator := leads(t, ca, &oracle{says: exact})
	network := linktest.NewNetwork(t, operator.Address)
	s := follower(t, ca, &oracle{says: estimate}, at(network.Address))
	for range 3 {
		linktest.Eventually(t, "the leader is asked", func() bool { return answered(t, s) == exact })
		network.Cut()
	}
}

// Certificates are read for each connection, not once.
func TestCertificateThatComesLater(t *testing.T) {
	ca := linktest.NewCA(t)
	s := follower(t, ca, &oracle{says: estimate}, at(leads(t, ca, &oracle{says: exact}).Address))
	soon, known := s.TLS, false
	s.TLS = func(ctx context.Context) (*tls.Config, error) {
		if known {
			return soon(ctx)
		}
		known = true
		return nil, errors.New("no certificate yet")
	}
	if got := answered(t, s); got != estimate {
		t.Errorf("without certificate: %+v", got)
	}
	linktest.Eventually(t, "the leader is asked", func() bool { return answered(t, s) == exact })
}

func TestWhatTheLeaderRefuses(t *testing.T) {
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
			own := &oracle{says: exact}
			operator := leads(t, ca, own)
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
			if status.Code(err) != c.code || len(own.questions()) > 0 != (c.code == codes.OK) {
				t.Errorf("asked about %v: %v", own.questions(), err)
			}
		})
	}
}

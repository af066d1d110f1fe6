package link

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// stubConsumer stubs everything that a server needs.
type stubConsumer struct{}

func (stubConsumer) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.ErrUnsupported
}
func (stubConsumer) Authenticate(context.Context, string) (Identity, error) {
	return Identity{}, ErrDenied
}
func (stubConsumer) Lease(Agent, *linkv1.Hello) time.Duration  { return 10 * time.Second }
func (stubConsumer) Joined(Agent, string, *linkv1.Hello) error { return nil }
func (stubConsumer) Received(Agent, *linkv1.AgentMessage)      {}
func (stubConsumer) Left(Agent)                                {}

func validConfig() Config {
	return Config{
		Certificates: stubConsumer{}, Authenticator: stubConsumer{}, Leadership: &fakeLeadership{}, Events: stubConsumer{},
		Leases: stubConsumer{},
		Ready:  make(chan struct{}), Metrics: prometheus.NewRegistry(),
	}
}

// A server without an authenticator, or without leadership, would trust everyone.
func TestServerNeedsEachOfItsParts(t *testing.T) {
	for reason, change := range map[string]func(*Config){
		"certificates":  func(c *Config) { c.Certificates = nil },
		"authenticator": func(c *Config) { c.Authenticator = nil },
		"leadership":    func(c *Config) { c.Leadership = nil },
		"events":        func(c *Config) { c.Events = nil },
		"leases":        func(c *Config) { c.Leases = nil },
		"ready":         func(c *Config) { c.Ready = nil },
		"metrics":       func(c *Config) { c.Metrics = nil },
	} {
		config := validConfig()
		change(&config)
		if _, err := New(config); err == nil {
			t.Errorf("a server was made without %s", reason)
		}
	}
	if _, err := New(validConfig()); err != nil {
		t.Error(err)
	}
}

// An agent that sends no heartbeat for two leases is cut off, counted from its last one, whatever else it sends.
func TestAgentIsCutOffTwoLeasesAfterItsLastHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := New(validConfig())
		if err != nil {
			t.Fatal(err)
		}
		sess, _ := newSession(Limits{}.withDefaults())
		sess.lease = 10 * time.Second
		receiver := &streamReceiver{inbox: newInbox(1 << 20), done: make(chan struct{})}
		start, ended := time.Now(), make(chan error)
		defer server.answerHeartbeats(receiver, sess)()
		go func() { ended <- server.serveMessages(receiver, sess) }()
		time.Sleep(15 * time.Second)
		receiver.inbox.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: 1}}})
		time.Sleep(5 * time.Second)
		receiver.inbox.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: 1}}})
		cause := <-ended
		if end, ok := errors.AsType[*streamError](cause); !ok || end.reason != refusedSilent || time.Since(start) != 35*time.Second {
			t.Errorf("ended with %v after %s", cause, time.Since(start))
		}
	})
}

func TestStreamEndsWithItsCause(t *testing.T) {
	reset := status.Error(codes.Unavailable, "connection reset")
	for reason, c := range map[string]struct {
		err     error
		refusal refusalReason
		code    codes.Code
	}{
		"the agent is done":         {io.EOF, "", codes.OK},
		"the connection is lost":    {reset, "", codes.Unavailable},
		"a frame is too large":      {status.Error(codes.ResourceExhausted, ""), refusedOversize, codes.ResourceExhausted},
		"a frame cannot be decoded": {status.Error(codes.Internal, ""), refusedMalformed, codes.Internal},
	} {
		end, ok := errors.AsType[*streamError](asStreamError(c.err))
		if !ok || end.reason != c.refusal || status.Code(end.grpcStatus) != c.code {
			t.Errorf("%s: %+v", reason, end)
		}
	}
}

// A counter that is missing until its first event hides that event from rate().
func TestCountersExistFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	newMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, family := range families {
		series[family.GetName()] = len(family.GetMetric())
	}
	if series["swarm_link_refused_total"] != len(refusalReasons) || series["swarm_link_dropped_total"] != len(dropReasons) {
		t.Errorf("series: %v", series)
	}
}

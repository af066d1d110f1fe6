package operator

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// joinedAgents is an Events that reports new agents.
type joinedAgents chan link.Agent

func (a joinedAgents) Lease(link.Agent, *linkv1.Hello) time.Duration          { return 15 * time.Second }
func (a joinedAgents) Joined(who link.Agent, _ string, _ *linkv1.Hello) error { a <- who; return nil }
func (joinedAgents) Received(link.Agent, *linkv1.AgentMessage)                {}
func (joinedAgents) Left(link.Agent)                                          {}

// A real agent, given only an address and a CA, verifies the operator's certificate from the authority.
func TestAgentsDialEitherFamily(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			port := freePort(t, host)
			stored, _, err := certs.DefaultLifetimes().Next(nil, time.Now(), []string{host})
			if err != nil {
				t.Fatal(err)
			}
			came := make(joinedAgents, 1)
			serve(t, stored, port, came)
			config := agent.Config{
				Namespace: "default", Swarm: "research", Agent: "research-coder-0", Slots: 1,
				Addresses: []string{net.JoinHostPort(host, strconv.Itoa(port))}, Log: slog.New(slog.DiscardHandler),
				TokenFile: linktest.WriteFile(t, "token", []byte("default/research-coder-0")),
				CAFile:    linktest.WriteFile(t, "ca.crt", stored["ca.crt"]),
			}
			background(t, func(ctx context.Context) error { return agent.RunWith(ctx, config, nil) })
			select {
			case <-came:
			case <-time.After(20 * time.Second):
				t.Error("the agent did not come")
			}
		})
	}
}

// freePort returns a port that is not in use, and that no outgoing connection takes.
func freePort(t *testing.T, host string) int {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skip("this machine has no", host)
	}
	defer listener.Close()
	port, err := strconv.Atoi(ports.Free())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func serve(t *testing.T, stored certs.Data, port int, events link.Events) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: certs.SecretName}, Data: stored}
	server, err := link.New(link.Config{
		Certificates:  certs.NewReader(fake.NewFakeClient(secret), "system"),
		Authenticator: linktest.Tokens{},
		Leadership:    leaderInfo{lease: fakeLease{fresh: true, term: 1}, acceptsAgents: func() bool { return true }},
		Events:        events, Leases: joinedAgents(nil), Ready: linktest.Ready(), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	background(t, linkServer{server, port}.Start)
}

// background runs until the test ends.
func background(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestUsedLinkPortIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := (linkServer{port: taken.Addr().(*net.TCPAddr).Port}).Start(t.Context()); err == nil {
		t.Error("two servers on one port")
	}
}

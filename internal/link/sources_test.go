package link_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

func coderNumber(n int) link.Agent {
	return link.Agent{Namespace: "default", Name: fmt.Sprintf("research-coder-%d", n)}
}

// from is a dialer of an address of this machine, as if it were another pod.
func from(source string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
}

func perSource(most int) func(*link.Config) {
	return func(c *link.Config) { c.Limits.ConnectionsPerSource = most }
}

// floodFrom opens connections that say nothing, and holds those that are let in until the test ends.
func floodFrom(t *testing.T, source string, operator *linktest.Operator, connections int) {
	t.Helper()
	for range connections {
		raw, err := from(source).DialContext(t.Context(), "tcp", operator.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = raw.Close() })
	}
}

func refusedForTheirSource(t *testing.T, by *linktest.Operator) int {
	t.Helper()
	return by.Count(t, "swarm_limit_refused_total", "connectionsPerSource")
}

// joinFrom links an agent that dials from an address, and tries again as agents do.
func joinFrom(ctx context.Context, source string, to *linktest.Operator, as link.Agent) error {
	var last error
	for ctx.Err() == nil {
		if last = tryFrom(ctx, source, to, as); last == nil {
			return nil
		}
	}
	return fmt.Errorf("%s from %s: %w", as, source, last)
}

func tryFrom(ctx context.Context, source string, to *linktest.Operator, as link.Agent) error {
	connection, err := grpc.NewClient("passthrough:///"+to.Address, grpc.WithTransportCredentials(credentials.NewTLS(to.ClientTLS())),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return from(source).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return err
	}
	stream, err := linkv1.NewLinkClient(connection).Connect(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+as.String()))
	if err == nil {
		if err = stream.Send(hello(as)); err == nil {
			_, err = stream.Recv()
		}
	}
	if err != nil {
		_ = connection.Close()
		return err
	}
	context.AfterFunc(ctx, func() { _ = connection.Close() })
	return nil
}

// joinAll links agents at the same time, each from its address.
func joinAll(t *testing.T, to *linktest.Operator, agents int, source func(n int) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	var group sync.WaitGroup
	for n := range agents {
		group.Go(func() {
			if err := joinFrom(ctx, source(n), to, coderNumber(n)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// A flood from one address leaves the places of all others.
func TestConnectionsOfASourceAreBounded(t *testing.T) {
	const most, flood = 8, 100
	operator := linktest.Start(t, linktest.NewCA(t), perSource(most))
	floodFrom(t, "127.0.0.2", operator, flood)
	linktest.Eventually(t, "the flood is refused", func() bool { return refusedForTheirSource(t, operator) == flood-most })
	if got := operator.Count(t, "swarm_link_connections", ""); got != most {
		t.Errorf("%d connections are open, want %d", got, most)
	}
	joinAll(t, operator, 30, func(n int) string { return fmt.Sprintf("127.0.1.%d", 1+n%20) })
	if got := operator.Count(t, "swarm_link_agents", ""); got != 30 {
		t.Errorf("%d of 30 agents are linked", got)
	}
	if got := operator.Count(t, "swarm_link_refused_total", "too_many_connections"); got != 0 {
		t.Errorf("%d connections were refused for all sources together", got)
	}
}

// These agents behind one address are more than may connect at the same time. They try again, and all of them are linked in the end.
func TestAgentsBehindOneAddressAreLinkedOneAfterTheOther(t *testing.T) {
	const agents, most = 30, 4
	operator := linktest.Start(t, linktest.NewCA(t), perSource(most))
	joinAll(t, operator, agents, func(int) string { return "127.0.0.3" })
	if got := operator.Count(t, "swarm_link_agents", ""); got != agents {
		t.Errorf("%d of %d agents are linked", got, agents)
	}
	if refusedForTheirSource(t, operator) == 0 {
		t.Error("none of them had to try again: the limit was not reached")
	}
}

// A stream that has ended leaves a connection that proves nothing any more. It cannot be kept to hold another place.
func TestConnectionWithoutAStreamCountsForItsSource(t *testing.T) {
	const most = 3
	operator := linktest.Start(t, linktest.NewCA(t), perSource(most))
	for n := range most {
		agent, _ := join(t, operator, coderNumber(n))
		operator.AwaitHello(t, n+1)
		if !operator.Disconnect(coderNumber(n), time.Now()) {
			t.Fatal("not disconnected")
		}
		agent.ending()
		operator.AwaitLeft(t, n+1)
	}
	linktest.Eventually(t, "the source has no place left", func() bool {
		before := refusedForTheirSource(t, operator)
		floodFrom(t, "127.0.0.1", operator, 1)
		return refusedForTheirSource(t, operator) > before
	})
}

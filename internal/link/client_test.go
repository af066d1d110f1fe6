package link_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

const testTimeout = 20 * time.Second

var coder = link.Agent{Namespace: "default", Name: "research-coder-0"}

// A client is the agent's end of the link, message by message.
type client struct {
	grpc.BidiStreamingClient[linkv1.AgentMessage, linkv1.OperatorMessage]
	conn *grpc.ClientConn
}

// dial returns a connection, and a context for the stream on it.
func dial(t *testing.T, to *linktest.Operator) (context.Context, *grpc.ClientConn) {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+to.Address, grpc.WithTransportCredentials(credentials.NewTLS(to.ClientTLS())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx, connection
}

// connect opens a stream with a token, and nothing more.
func connect(t *testing.T, to *linktest.Operator, token string) client {
	t.Helper()
	ctx, connection := dial(t, to)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	stream, err := linkv1.NewLinkClient(connection).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return client{stream, connection}
}

// join sends Hello as an agent and returns its Welcome.
func join(t *testing.T, to *linktest.Operator, as link.Agent) (client, *linkv1.Welcome) {
	t.Helper()
	c := connect(t, to, as.String())
	c.send(t, hello(as))
	welcome := c.receive(t).GetWelcome()
	if welcome == nil {
		t.Fatal("the first message was no Welcome")
	}
	return c, welcome
}

func hello(as link.Agent) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: &linkv1.Hello{
		Protocol: linkv1.Protocol, Features: append(linkv1.Features(), "telepathy"),
		Namespace: as.Namespace, Swarm: "research", Agent: as.Name, Slots: 2,
	}}}
}

func heartbeat(sequence int64) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: sequence}}}
}

func credit(granted int64) *linkv1.AgentMessage {
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted}}}
}

func (c client) send(t *testing.T, message *linkv1.AgentMessage) {
	t.Helper()
	if err := c.Send(message); err != nil {
		t.Fatal(err)
	}
}

func (c client) receive(t *testing.T) *linkv1.OperatorMessage {
	t.Helper()
	message, err := c.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// awaitEnd reads the stream to its end and returns how it ended.
func (c client) awaitEnd() codes.Code {
	for {
		if _, err := c.Recv(); err != nil {
			return status.Code(err)
		}
	}
}

func assertRefused(t *testing.T, by *linktest.Operator, reason string, times int) {
	t.Helper()
	linktest.Eventually(t, "refusals counted as "+reason, func() bool { return by.MetricSum(t, "swarm_link_refused_total", reason) == times })
}

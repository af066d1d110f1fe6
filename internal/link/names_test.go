package link

import (
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// A helloStream is the operator's end of a stream on which an agent sends Hello and nothing else.
type helloStream struct {
	grpc.ServerStream
	hello *linkv1.Hello
	sent  bool
}

func (g *helloStream) Context() context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer token"))
}

func (g *helloStream) Send(*linkv1.OperatorMessage) error { return nil }

func (g *helloStream) RecvMsg(target any) error {
	if g.sent {
		return io.EOF
	}
	g.sent = true
	target.(*receivedMessage).Kind = &linkv1.AgentMessage_Hello{Hello: g.hello}
	return nil
}

func (g *helloStream) Recv() (*linkv1.AgentMessage, error) { return nil, io.EOF }

// onePodAuthenticator is an Authenticator for which every token belongs to this pod.
type onePodAuthenticator struct{}

func (onePodAuthenticator) Authenticate(context.Context, string) (Identity, error) {
	return Identity{"ns", "a", "uid"}, nil
}

// The link remembers the processes of agents long after their streams are gone.
func TestNothingIsRememberedOfAHelloWithLongNames(t *testing.T) {
	for name, c := range map[string]struct {
		swarm, process string
		code           codes.Code
		remembered     int
	}{
		"a process":            {"s", strings.Repeat("p", 65), codes.InvalidArgument, 0},
		"a swarm":              {strings.Repeat("s", 254), "p", codes.InvalidArgument, 0},
		"names that there are": {strings.Repeat("s", 253), strings.Repeat("p", 64), codes.OK, 1},
	} {
		config := validConfig()
		config.Authenticator = onePodAuthenticator{}
		server, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		err = server.Connect(&helloStream{hello: &linkv1.Hello{
			Protocol: linkv1.Protocol, Namespace: "ns", Agent: "a", Swarm: c.swarm, Process: c.process, Connection: 1,
		}})
		if got := len(server.registry.connections); status.Code(err) != c.code || got != c.remembered {
			t.Errorf("%s: ended with %v, the processes of %d agents are remembered", name, err, got)
		}
	}
}

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

// A greeting is the operator's end of a stream on which an agent sends Hello and nothing else.
type greeting struct {
	grpc.ServerStream
	hello *linkv1.Hello
	said  bool
}

func (g *greeting) Context() context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer token"))
}

func (g *greeting) Send(*linkv1.OperatorMessage) error { return nil }

func (g *greeting) RecvMsg(into any) error {
	if g.said {
		return io.EOF
	}
	g.said = true
	into.(*received).Kind = &linkv1.AgentMessage_Hello{Hello: g.hello}
	return nil
}

func (g *greeting) Recv() (*linkv1.AgentMessage, error) { return nil, io.EOF }

// onePod is an Authenticator for which every token belongs to this pod.
type onePod struct{}

func (onePod) Authenticate(context.Context, string) (Identity, error) {
	return Identity{"ns", "a", "uid"}, nil
}

// The link remembers the processes of agents long after their streams are gone.
func TestNothingIsRememberedOfAHelloWithLongNames(t *testing.T) {
	for what, c := range map[string]struct {
		swarm, process string
		code           codes.Code
		remembered     int
	}{
		"a process":            {"s", strings.Repeat("p", 65), codes.InvalidArgument, 0},
		"a swarm":              {strings.Repeat("s", 254), "p", codes.InvalidArgument, 0},
		"names that there are": {strings.Repeat("s", 253), strings.Repeat("p", 64), codes.OK, 1},
	} {
		config := wholeConfig()
		config.Authenticator = onePod{}
		server, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		err = server.Connect(&greeting{hello: &linkv1.Hello{
			Protocol: linkv1.Protocol, Namespace: "ns", Agent: "a", Swarm: c.swarm, Process: c.process, Connection: 1,
		}})
		if got := len(server.registry.latest); status.Code(err) != c.code || got != c.remembered {
			t.Errorf("%s: ended with %v, the processes of %d agents are remembered", what, err, got)
		}
	}
}

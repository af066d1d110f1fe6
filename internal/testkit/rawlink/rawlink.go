// Package rawlink implements the link without our SDK, like a program that has only the token of its pod. Its messages need not be true, or
// allowed by the protocol.
//
// It keeps no lease, runs no code, and never retries.
package rawlink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const dialTimeout = 5 * time.Second

// An Agent replaces the agent of a pod.
type Agent struct {
	Config        agent.Config
	SourceAddress string // the source address of connections; default: any

	connections atomic.Int64
}

// A Stream is one stream of the link, on its own connection.
type Stream struct {
	linkv1.Link_ConnectClient
	connection *grpc.ClientConn
}

// Close closes the stream and its connection.
func (s Stream) Close() { _ = s.connection.Close() }

// Dialer dials from the program's address.
func (p *Agent) Dialer() *net.Dialer {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if p.SourceAddress != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(p.SourceAddress)}
	}
	return dialer
}

// Token reads the token of the pod.
func (p *Agent) Token() (string, error) {
	text, err := os.ReadFile(p.Config.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return string(text), nil
}

// Connect opens a stream with the token of the pod.
func (p *Agent) Connect(ctx context.Context) (Stream, error) {
	token, err := p.Token()
	if err != nil {
		return Stream{}, err
	}
	return p.ConnectWithToken(ctx, token)
}

// ConnectWithToken opens a stream with any token.
func (p *Agent) ConnectWithToken(ctx context.Context, token string) (Stream, error) {
	creds, err := p.transport()
	if err != nil {
		return Stream{}, err
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return p.Dialer().DialContext(ctx, "tcp", address)
	}
	connection, err := grpc.NewClient("passthrough:///"+p.Config.Addresses[0], grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(dial))
	if err != nil {
		return Stream{}, fmt.Errorf("dial the link: %w", err)
	}
	stream, err := linkv1.NewLinkClient(connection).Connect(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
	if err != nil {
		_ = connection.Close()
		return Stream{}, fmt.Errorf("open stream: %w", err)
	}
	return Stream{stream, connection}, nil
}

// transport trusts the CA of the pod's swarm.
func (p *Agent) transport() (credentials.TransportCredentials, error) {
	bundle, err := os.ReadFile(p.Config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	host, _, err := net.SplitHostPort(p.Config.Addresses[0])
	if err != nil {
		return nil, fmt.Errorf("read address of the link: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: host}), nil
}

// Hello returns the Hello of an honest agent, for a connection that is later than all others.
func (p *Agent) Hello() *linkv1.Hello {
	return &linkv1.Hello{
		Protocol: linkv1.Protocol, Features: linkv1.Features(), Namespace: p.Config.Namespace, Swarm: p.Config.Swarm, Agent: p.Config.Agent,
		Slots: int32(p.Config.Slots), Process: "rawlink", Connection: p.connections.Add(1),
	}
}

// AcceptAndHandBack accepts every assignment and reports an outcome at once, the outcomes in turn, until the stream or the context ends.
func (p *Agent) AcceptAndHandBack(ctx context.Context, message string, outcomes ...linkv1.Outcome) (count int, err error) {
	stream, err := p.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	for _, first := range []*linkv1.AgentMessage{
		{Kind: &linkv1.AgentMessage_Hello{Hello: p.Hello()}},
		{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: 1}}},
		{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: 1 << 62}}},
	} {
		if err := stream.Send(first); err != nil {
			return 0, fmt.Errorf("send Hello: %w", err)
		}
	}
	return stream.acceptAndHandBack(ctx, message, outcomes)
}

// acceptAndHandBack also sends a heartbeat every second, because the operator ends a silent stream.
func (s Stream) acceptAndHandBack(ctx context.Context, message string, outcomes []linkv1.Outcome) (count int, err error) {
	messages := make(chan *linkv1.OperatorMessage)
	go func() {
		defer close(messages)
		for nextOutcome, err := s.Recv(); err == nil; nextOutcome, err = s.Recv() {
			select {
			case messages <- nextOutcome:
			case <-ctx.Done():
				return
			}
		}
	}()
	heartbeats := time.NewTicker(time.Second)
	defer heartbeats.Stop()
	for sequence := int64(2); ; {
		response := &linkv1.AgentMessage{}
		select {
		case <-ctx.Done():
			return count, nil
		case <-heartbeats.C:
			response.Kind = &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: sequence}}
			sequence++
		case nextOutcome, open := <-messages:
			switch {
			case !open:
				return count, nil
			case nextOutcome.GetAssign() == nil:
				continue
			}
			result := &linkv1.Result{Attempt: nextOutcome.GetAssign().GetAttempt(), Outcome: outcomes[count%len(outcomes)], Message: message}
			response.Kind = &linkv1.AgentMessage_Result{Result: result}
			count++
		}
		if err := s.Send(response); err != nil {
			return count, fmt.Errorf("hand back: %w", err)
		}
	}
}

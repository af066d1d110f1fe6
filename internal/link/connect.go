package link

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

type stream = grpc.BidiStreamingServer[linkv1.AgentMessage, linkv1.OperatorMessage]

// Connect is called by gRPC for each stream.
func (s *Server) Connect(connected stream) error {
	err := s.converse(connected)
	var end *ending
	if errors.As(err, &end) {
		if end.refusal != "" {
			s.metrics.refuse(end.refusal)
		}
		return end.status
	}
	return err
}

// converse serves a stream from its first byte to its last.
func (s *Server) converse(connected stream) error {
	markUsed(connected.Context())
	identity, err := s.prove(connected.Context())
	if err != nil {
		return err
	}
	heard := newHearing(connected.Context(), s.config.Limits, s.receiving.forNamespace(identity.Namespace))
	defer heard.end()
	if !heard.begin() {
		return errTooMuch
	}
	s.listen(connected, heard)
	hello, err := s.awaitHello(heard)
	if err != nil {
		return err
	}
	if err := check(identity, hello); err != nil {
		return err
	}
	term, leading := s.config.Leadership.Leading()
	if !leading {
		return s.redirect(connected)
	}
	if hello.GetProtocol() < linkv1.OldestProtocol {
		return turnAway(connected, refusedProtocol, "UnsupportedProtocol", "this operator speaks protocol 1 and later: use a newer swarm-agent")
	}
	hosted := s.newSession(identity, term, hello)
	hosted.resetTerm = s.forgetUnprovenTerm(hello)
	return s.host(connected, heard, hosted, arrival{identity.PodUID, hello})
}

// forgetUnprovenTerm removes a term from Hello if no leader can be proven to have issued it, and reports whether it did.
// Agents of earlier versions carry no proof. Their terms are below that of the leader, unless the Lease and the Secret were
// both deleted.
func (s *Server) forgetUnprovenTerm(hello *linkv1.Hello) bool {
	if hello.GetTerm() == 0 || s.config.Terms != nil && s.config.Terms.Proven(hello.GetTerm(), hello.GetTermProof()) {
		return false
	}
	hello.Term = 0
	s.metrics.drop(droppedUnprovenTerm)
	return true
}

type arrival struct {
	podUID string
	hello  *linkv1.Hello
}

// prove authenticates the token of the stream.
func (s *Server) prove(ctx context.Context) (Identity, error) {
	token := bearer(ctx)
	if token == "" {
		return Identity{}, &ending{refusedNoToken, status.Error(codes.Unauthenticated, "a bearer token in the metadata is needed")}
	}
	asking, cancel := context.WithTimeout(ctx, s.config.Limits.HelloTimeout)
	defer cancel()
	identity, err := s.config.Authenticator.Authenticate(asking, token)
	switch {
	case errors.Is(err, ErrDenied):
		return Identity{}, &ending{refusedToken, status.Error(codes.Unauthenticated, err.Error())}
	case err != nil:
		// The details are not for strangers.
		return Identity{}, &ending{refusedUnproven, status.Error(codes.Unavailable, "the token could not be checked: try again")}
	}
	return identity, nil
}

func bearer(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return ""
	}
	token, isBearer := strings.CutPrefix(values[0], "Bearer ")
	if !isBearer {
		return ""
	}
	return token
}

// The longest possible names of objects, and of processes in Task status.
const mostNameBytes, mostProcessBytes = 253, 64

// check compares the agent named in Hello with the identity of its token. It refuses impossible names, because some are
// remembered for longer than the stream lasts.
func check(identity Identity, hello *linkv1.Hello) error {
	if len(hello.GetSwarm()) > mostNameBytes || len(hello.GetProcess()) > mostProcessBytes {
		return &ending{refusedNames, status.Errorf(codes.InvalidArgument,
			"the name of the swarm or of the process is too long: at most %d and %d bytes", mostNameBytes, mostProcessBytes)}
	}
	claimed := Agent{Namespace: hello.GetNamespace(), Name: hello.GetAgent()}
	if claimed == identity.agent() && identity.Pod != "" {
		return nil
	}
	return &ending{refusedIdentity, status.Errorf(codes.PermissionDenied, "the token is pod %s's, not agent %s's", identity.agent(), claimed)}
}

func (s *Server) awaitHello(heard *hearing) (*linkv1.Hello, error) {
	late := make(chan struct{})
	timer := time.AfterFunc(s.config.Limits.HelloTimeout, func() { close(late) })
	defer timer.Stop()
	first, err := heard.next(late)
	switch {
	case err != nil:
		return nil, err
	case first == nil:
		return nil, &ending{refusedHello, status.Error(codes.DeadlineExceeded, "no Hello came")}
	}
	s.metrics.received(kindOf(first))
	if first.GetHello() == nil {
		return nil, &ending{refusedHello, status.Error(codes.InvalidArgument, "the first message must be Hello")}
	}
	return first.GetHello(), nil
}

func (s *Server) redirect(connected stream) error {
	address := s.config.Leadership.Leader()
	message := &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Redirect{Redirect: &linkv1.Redirect{Address: address}}}
	if err := connected.Send(message); err != nil {
		return err
	}
	s.metrics.sent("redirect")
	return &ending{refusal: refusedRedirected}
}

// turnAway tells a proven agent why it is refused.
func turnAway(connected stream, why refusal, reason, text string) error {
	message := &linkv1.Refuse{Reason: reason, Message: text}
	if err := connected.Send(&linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Refuse{Refuse: message}}); err != nil {
		return err
	}
	return &ending{refusal: why}
}

func (s *Server) newSession(identity Identity, term int64, hello *linkv1.Hello) *session {
	return &session{
		agent: identity.agent(), connection: connectionOf(identity, hello), term: term,
		features:   slices.DeleteFunc(linkv1.Features(), func(f string) bool { return !slices.Contains(hello.GetFeatures(), f) }),
		frameBytes: s.config.Limits.FrameBytes,
		leadership: s.config.Leadership, metrics: s.metrics, queue: newQueue[*linkv1.OperatorMessage](s.config.Limits.QueueMessages, s.config.Limits.QueueBytes),
		waiting: s.waiting, refusals: s.config.Refusals,
		ended: make(chan struct{}), left: make(chan struct{}),
	}
}

func connectionOf(identity Identity, hello *linkv1.Hello) connection {
	if hello.GetProcess() == "" {
		return connection{}
	}
	return connection{process: identity.PodUID + "/" + hello.GetProcess(), number: hello.GetConnection()}
}

func (s *Server) welcome(of *session, hello *linkv1.Hello) *linkv1.OperatorMessage {
	welcome := &linkv1.Welcome{
		Protocol:  min(linkv1.Protocol, hello.GetProtocol()),
		Features:  of.features,
		Term:      of.term,
		Lease:     durationpb.New(of.lease),
		ResetTerm: of.resetTerm,
	}
	if s.config.Terms != nil {
		welcome.TermProof = s.config.Terms.Prove(of.term)
	}
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Welcome{Welcome: welcome}}
}

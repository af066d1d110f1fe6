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

type agentStream = grpc.BidiStreamingServer[linkv1.AgentMessage, linkv1.OperatorMessage]

// Connect is called by gRPC for each stream.
func (s *Server) Connect(stream agentStream) error {
	err := s.handleStream(stream)
	var streamErr *streamError
	if errors.As(err, &streamErr) {
		if streamErr.reason != "" {
			s.metrics.refuse(streamErr.reason)
		}
		return streamErr.grpcStatus
	}
	return err
}

// handleStream serves a stream from its first byte to its last.
func (s *Server) handleStream(stream agentStream) error {
	markStreamOpened(stream.Context())
	identity, err := s.authenticate(stream.Context())
	if err != nil {
		return err
	}
	receiver := newStreamReceiver(stream.Context(), s.config.Limits, s.receiveBudget.forNamespace(identity.Namespace))
	defer receiver.release()
	if !receiver.beginStream() {
		return errReceiveBudget
	}
	s.startReading(stream, receiver)
	hello, err := s.awaitHello(receiver)
	if err != nil {
		return err
	}
	if err := checkIdentity(identity, hello); err != nil {
		return err
	}
	term, leading := s.config.Leadership.Leading()
	if !leading {
		return s.redirect(stream)
	}
	if hello.GetProtocol() < linkv1.OldestProtocol {
		return refuse(stream, refusedProtocol, "UnsupportedProtocol", "this operator speaks protocol 1 and later: use a newer swarm-agent")
	}
	sess := s.newSession(identity, term, hello)
	sess.resetTerm = s.forgetUnprovenTerm(hello)
	return s.serveSession(stream, receiver, sess, joinRequest{identity.PodUID, hello})
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

type joinRequest struct {
	podUID string
	hello  *linkv1.Hello
}

// authenticate authenticates the token of the stream.
func (s *Server) authenticate(ctx context.Context) (Identity, error) {
	token := bearerToken(ctx)
	if token == "" {
		return Identity{}, &streamError{refusedNoToken, status.Error(codes.Unauthenticated, "a bearer token in the metadata is needed")}
	}
	timeoutCtx, cancel := context.WithTimeout(ctx, s.config.Limits.HelloTimeout)
	defer cancel()
	identity, err := s.config.Authenticator.Authenticate(timeoutCtx, token)
	switch {
	case errors.Is(err, ErrDenied):
		return Identity{}, &streamError{refusedToken, status.Error(codes.Unauthenticated, err.Error())}
	case err != nil:
		// The details are not for strangers.
		return Identity{}, &streamError{refusedUnproven, status.Error(codes.Unavailable, "the token could not be checked: try again")}
	}
	return identity, nil
}

func bearerToken(ctx context.Context) string {
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
const maxNameBytes, maxProcessBytes = 253, 64

// checkIdentity compares the agent named in Hello with the identity of its token. It refuses impossible names, because some are
// remembered for longer than the stream lasts.
func checkIdentity(identity Identity, hello *linkv1.Hello) error {
	if len(hello.GetSwarm()) > maxNameBytes || len(hello.GetProcess()) > maxProcessBytes {
		return &streamError{refusedNames, status.Errorf(codes.InvalidArgument,
			"the name of the swarm or of the process is too long: at most %d and %d bytes", maxNameBytes, maxProcessBytes)}
	}
	claimedAgent := Agent{Namespace: hello.GetNamespace(), Name: hello.GetAgent()}
	if claimedAgent == identity.agent() && identity.Pod != "" {
		return nil
	}
	return &streamError{refusedIdentity, status.Errorf(codes.PermissionDenied, "the token is pod %s's, not agent %s's", identity.agent(),
		claimedAgent)}
}

func (s *Server) awaitHello(receiver *streamReceiver) (*linkv1.Hello, error) {
	timedOut := make(chan struct{})
	timer := time.AfterFunc(s.config.Limits.HelloTimeout, func() { close(timedOut) })
	defer timer.Stop()
	message, err := receiver.next(timedOut)
	switch {
	case err != nil:
		return nil, err
	case message == nil:
		return nil, &streamError{refusedHello, status.Error(codes.DeadlineExceeded, "no Hello came")}
	}
	s.metrics.received(messageKind(message))
	if message.GetHello() == nil {
		return nil, &streamError{refusedHello, status.Error(codes.InvalidArgument, "the first message must be Hello")}
	}
	return message.GetHello(), nil
}

func (s *Server) redirect(stream agentStream) error {
	address := s.config.Leadership.Leader()
	message := &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Redirect{Redirect: &linkv1.Redirect{Address: address}}}
	if err := stream.Send(message); err != nil {
		return err
	}
	s.metrics.sent("redirect")
	return &streamError{reason: refusedRedirected}
}

// refuse tells a proven agent why it is refused.
func refuse(stream agentStream, metricReason refusalReason, reason, description string) error {
	message := &linkv1.Refuse{Reason: reason, Message: description}
	if err := stream.Send(&linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Refuse{Refuse: message}}); err != nil {
		return err
	}
	return &streamError{reason: metricReason}
}

func (s *Server) newSession(identity Identity, term int64, hello *linkv1.Hello) *session {
	return &session{
		agent: identity.agent(), connectionID: newConnectionID(identity, hello), term: term,
		features:   slices.DeleteFunc(linkv1.Features(), func(f string) bool { return !slices.Contains(hello.GetFeatures(), f) }),
		frameBytes: s.config.Limits.FrameBytes,
		leadership: s.config.Leadership, metrics: s.metrics, queue: newQueue[*linkv1.OperatorMessage](s.config.Limits.QueueMessages,
			s.config.Limits.QueueBytes),
		queueLimiter: s.queueLimiter, refusals: s.config.Refusals,
		ended: make(chan struct{}), left: make(chan struct{}),
	}
}

func newConnectionID(identity Identity, hello *linkv1.Hello) connectionID {
	if hello.GetProcess() == "" {
		return connectionID{}
	}
	return connectionID{process: identity.PodUID + "/" + hello.GetProcess(), number: hello.GetConnection()}
}

func (s *Server) newWelcome(sess *session, hello *linkv1.Hello) *linkv1.OperatorMessage {
	welcome := &linkv1.Welcome{
		Protocol:  min(linkv1.Protocol, hello.GetProtocol()),
		Features:  sess.features,
		Term:      sess.term,
		Lease:     durationpb.New(sess.lease),
		ResetTerm: sess.resetTerm,
	}
	if s.config.Terms != nil {
		welcome.TermProof = s.config.Terms.Prove(sess.term)
	}
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Welcome{Welcome: welcome}}
}

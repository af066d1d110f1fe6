package link

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
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

// converse is a stream from its first byte to its last.
func (s *Server) converse(connected stream) error {
	markUsed(connected.Context())
	identity, err := s.prove(connected.Context())
	if err != nil {
		return err
	}
	heard := s.listen(connected)
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

// forgetUnprovenTerm removes a term from Hello that no leader has given out, as far as can be proven, and reports whether it did. Agents of earlier
// versions carry no proof. Their terms are below that of the leader, unless the Lease and the Secret were both deleted.
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

// prove asks whose token the stream came with.
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
		// The details are the operator's own business, not a stranger's.
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

// The longest names that can be: those of objects, and of processes in Task status.
const mostNameBytes, mostProcessBytes = 253, 64

// check compares who the agent says it is with who its token says it is. It refuses names that nothing can have, because some are
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

// hearing is what an agent says.
type hearing struct {
	inbox *inbox
	beat  atomic.Pointer[func(*linkv1.Heartbeat)] // answers heartbeats, once there is a session
	hello bool                                    // one has come
	first *linkv1.AgentMessage                    // heartbeat that was answered at once; it is passed on as well
	over  chan struct{}                           // closed when the stream is over; then err says why
	err   error
}

// listen reads the stream, no faster than its rate allows, until it fails or its handler returns. Heartbeats are answered at once: however long
// the consumer takes, an agent that is heard must not stop its work.
func (s *Server) listen(connected stream) *hearing {
	ctx, heard := connected.Context(), &hearing{inbox: newInbox(2 * s.config.Limits.FrameBytes), over: make(chan struct{})}
	perSecond := s.config.Limits.MessagesPerSecond
	bucket := rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)
	go func() {
		defer close(heard.over)
		for {
			message, err := connected.Recv()
			if err != nil {
				heard.err = err
				return
			}
			if !bucket.Allow() {
				s.metrics.throttled.Inc()
				_ = bucket.Wait(ctx) // fails only when the stream is over, which Recv says next
			}
			s.hear(ctx, heard, message)
		}
	}()
	return heard
}

// hear answers a heartbeat, and leaves everything else to the consumer. Of heartbeats it gets the first one as well.
func (s *Server) hear(ctx context.Context, heard *hearing, message *linkv1.AgentMessage) {
	switch beat := heard.beat.Load(); {
	case beat != nil && message.GetHeartbeat() != nil:
		(*beat)(message.GetHeartbeat())
		if heard.first != nil {
			return
		}
		heard.first = message
	case heard.hello && message.GetHello() != nil: // of no use, and it may be a hundred times larger in memory than on the wire
		s.metrics.received(kindOf(message))
		s.metrics.drop(droppedUnknown)
		return
	}
	heard.hello = heard.hello || message.GetHello() != nil
	s.leave(ctx, heard.inbox, message)
}

// leave puts a message into the inbox. While that is full the stream is not read, heartbeats included. The agent then stops its work when
// its lease is over, and the operator counts from the last heartbeat that it did read.
func (s *Server) leave(ctx context.Context, inbox *inbox, message *linkv1.AgentMessage) {
	superseded, added := inbox.push(message)
	if !added {
		s.metrics.stalled.Inc()
	}
	for !added && ctx.Err() == nil {
		inbox.wait(ctx)
		superseded, added = inbox.push(message)
	}
	if superseded != nil {
		s.metrics.received(kindOf(superseded))
		s.metrics.drop(droppedSuperseded)
	}
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

// next waits for a message; nil when enough is done. What was said before the stream was over still counts.
func (h *hearing) next(enough <-chan struct{}) (*linkv1.AgentMessage, error) {
	for {
		select {
		case <-enough:
			return nil, nil
		case <-h.inbox.filled:
			if message, found := h.inbox.first(); found {
				return message, nil
			}
		case <-h.over:
			if message, found := h.inbox.first(); found {
				return message, nil
			}
			return nil, broken(h.err)
		}
	}
}

// broken tells a stream that simply ended from one that broke the rules.
func broken(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return &ending{}
	case status.Code(err) == codes.ResourceExhausted:
		return &ending{refusedOversize, err}
	case status.Code(err) == codes.Internal:
		return &ending{refusedMalformed, err}
	}
	return &ending{status: err}
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

// turnAway tells a proven agent why it is not wanted.
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

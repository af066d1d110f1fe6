package link

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// serveSession admits a proven agent and serves it until either side ends the session.
func (s *Server) serveSession(stream agentStream, receiver *streamReceiver, sess *session, request joinRequest) error {
	if err := s.registry.addStream(sess.agent, time.Now()); err != nil {
		return err
	}
	defer s.registry.removeStream(sess.agent)
	defer markAuthenticated(stream.Context())()
	if err := s.registry.admit(stream.Context(), sess); err != nil {
		return err
	}
	defer s.registry.remove(sess)

	sess.lease = s.config.Leases.Lease(sess.agent, request.hello)
	defer s.config.Events.Left(sess.agent)
	defer sess.closeQueue()
	defer sess.end(nil) // before the lease is counted out: no echo follows

	s.registry.markHeard(sess.agent, time.Now()) // Hello is heartbeat 0, and Welcome its echo
	sess.queue.push(s.newWelcome(sess, request.hello))
	defer s.answerHeartbeats(receiver, sess)()
	if !s.isReady() {
		return s.serveUntilReady(stream, receiver, sess, request)
	}
	if err := s.config.Events.Joined(sess.agent, request.podUID, request.hello); err != nil {
		sess.end(nil) // no heartbeat is recorded after this
		s.registry.markRefused(sess.agent)
		return refuse(stream, refusedByConsumer, "NotWanted", err.Error())
	}
	s.registry.markWelcomed(sess.agent, lastHeardTTL)
	// The writer gets its own goroutine: it may hang in Send, and only the return of the handler frees it.
	go sess.writeQueue(stream)
	return s.serveMessages(receiver, sess)
}

func (s *Server) isReady() bool {
	select {
	case <-s.config.Ready:
		return true
	default:
		return false
	}
}

// serveUntilReady keeps the agent working until the consumer is ready for it. The consumer may then refuse the agent, which may go
// on until its lease expires.
func (s *Server) serveUntilReady(stream agentStream, receiver *streamReceiver, sess *session, request joinRequest) error {
	s.registry.markWelcomed(sess.agent, 2*sess.lease)
	go sess.writeQueue(stream)
	select {
	case <-s.config.Ready:
	case <-sess.ended:
		return sess.endCause
	case <-receiver.conn.overflow():
		return errReceiveBudget
	case <-receiver.done:
		return asStreamError(receiver.err)
	}
	if err := s.config.Events.Joined(sess.agent, request.podUID, request.hello); err != nil {
		return &streamError{refusedByConsumer, status.Error(codes.Unavailable, err.Error())}
	}
	s.registry.markWelcomed(sess.agent, lastHeardTTL)
	return s.serveMessages(receiver, sess)
}

// answerHeartbeats answers heartbeats until the returned function is called. An agent that sends none for two leases has long stopped
// working.
func (s *Server) answerHeartbeats(receiver *streamReceiver, sess *session) (stop func()) {
	silenceTimer := time.AfterFunc(2*sess.lease, func() { sess.end(newAbortedError(refusedSilent, "no heartbeat came for two leases")) })
	answer := func(heartbeat *linkv1.Heartbeat) {
		s.metrics.received("heartbeat")
		if s.echoHeartbeat(sess, heartbeat) {
			silenceTimer.Reset(2 * sess.lease)
		}
	}
	receiver.answerHeartbeat.Store(&answer)
	return func() { silenceTimer.Stop() }
}

// serveMessages passes on the agent's messages, until either side ends the stream.
func (s *Server) serveMessages(receiver *streamReceiver, sess *session) error {
	s.metrics.linkedAgents.Inc()
	defer s.metrics.linkedAgents.Dec()
	for {
		message, err := receiver.next(sess.ended)
		switch {
		case err != nil:
			return err
		case message == nil:
			return sess.endCause
		case message.GetHeartbeat() != nil:
			if message != receiver.answeredHeartbeat { // it arrived before it could be answered at once
				(*receiver.answerHeartbeat.Load())(message.GetHeartbeat())
			}
			s.config.Events.Received(sess.agent, message)
		default:
			s.handleMessage(sess, message)
		}
	}
}

func (s *Server) handleMessage(sess *session, message *linkv1.AgentMessage) {
	s.metrics.received(messageKind(message))
	switch kind := message.GetKind().(type) {
	case *linkv1.AgentMessage_Credit:
		sess.grantCredit(kind.Credit)
		s.config.Events.Received(sess.agent, message)
	case *linkv1.AgentMessage_Progress, *linkv1.AgentMessage_Result, *linkv1.AgentMessage_Complete, *linkv1.AgentMessage_Goodbye:
		s.config.Events.Received(sess.agent, message)
	default:
		s.metrics.drop(droppedUnknown) // a second Hello, or something from a later version
	}
}

// echoHeartbeat extends both leases: ours before the agent's, because the receipt is recorded before the echo is sent.
func (s *Server) echoHeartbeat(sess *session, heartbeat *linkv1.Heartbeat) bool {
	return sess.echo(heartbeat.GetSequence(), func() { s.registry.markHeard(sess.agent, time.Now()) })
}

package link

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// host admits a proven agent and serves it until either side ends the session.
func (s *Server) host(connected stream, heard *hearing, hosted *session, arrived arrival) error {
	if err := s.registry.enter(hosted.agent, time.Now()); err != nil {
		return err
	}
	defer s.registry.exit(hosted.agent)
	defer markProven(connected.Context())()
	if err := s.registry.admit(connected.Context(), hosted); err != nil {
		return err
	}
	defer s.registry.remove(hosted)

	hosted.lease = s.config.Leases.Lease(hosted.agent, arrived.hello)
	defer s.config.Events.Left(hosted.agent)
	defer hosted.release()
	defer hosted.end(nil) // before the lease is counted out: no echo follows

	s.registry.hear(hosted.agent, time.Now()) // Hello is heartbeat 0, and Welcome its echo
	hosted.queue.push(s.welcome(hosted, arrived.hello))
	defer s.answer(heard, hosted)()
	if !s.isReady() {
		return s.hostEarly(connected, heard, hosted, arrived)
	}
	if err := s.config.Events.Joined(hosted.agent, arrived.podUID, arrived.hello); err != nil {
		hosted.end(nil) // no heartbeat is recorded after this
		s.registry.refused(hosted.agent)
		return turnAway(connected, refusedByConsumer, "NotWanted", err.Error())
	}
	s.registry.welcomed(hosted.agent, forgetAfter)
	// The writer gets a goroutine of its own: it may hang in Send, and only the return of the handler frees it.
	go hosted.write(connected)
	return s.attend(heard, hosted)
}

func (s *Server) isReady() bool {
	select {
	case <-s.config.Ready:
		return true
	default:
		return false
	}
}

// hostEarly keeps the agent working until the consumer is ready for it. The consumer may then refuse the agent, which may go
// on until its lease expires.
func (s *Server) hostEarly(connected stream, heard *hearing, hosted *session, arrived arrival) error {
	s.registry.welcomed(hosted.agent, 2*hosted.lease)
	go hosted.write(connected)
	select {
	case <-s.config.Ready:
	case <-hosted.ended:
		return hosted.cause
	case <-heard.meter.overflows():
		return errTooMuch
	case <-heard.over:
		return broken(heard.err)
	}
	if err := s.config.Events.Joined(hosted.agent, arrived.podUID, arrived.hello); err != nil {
		return &ending{refusedByConsumer, status.Error(codes.Unavailable, err.Error())}
	}
	s.registry.welcomed(hosted.agent, forgetAfter)
	return s.attend(heard, hosted)
}

// answer answers heartbeats until the returned function is called. An agent that sends none for two leases has long stopped working.
func (s *Server) answer(heard *hearing, hosted *session) (stop func()) {
	silence := time.AfterFunc(2*hosted.lease, func() { hosted.end(cutOff(refusedSilent, "no heartbeat came for two leases")) })
	beat := func(heartbeat *linkv1.Heartbeat) {
		s.metrics.received("heartbeat")
		if s.echo(hosted, heartbeat) {
			silence.Reset(2 * hosted.lease)
		}
	}
	heard.beat.Store(&beat)
	return func() { silence.Stop() }
}

// attend passes on the agent's messages, until either side ends the stream.
func (s *Server) attend(heard *hearing, hosted *session) error {
	s.metrics.linked.Inc()
	defer s.metrics.linked.Dec()
	for {
		message, err := heard.next(hosted.ended)
		switch {
		case err != nil:
			return err
		case message == nil:
			return hosted.cause
		case message.GetHeartbeat() != nil:
			if message != heard.first { // it arrived before it could be answered at once
				(*heard.beat.Load())(message.GetHeartbeat())
			}
			s.config.Events.Received(hosted.agent, message)
		default:
			s.take(hosted, message)
		}
	}
}

func (s *Server) take(from *session, message *linkv1.AgentMessage) {
	s.metrics.received(kindOf(message))
	switch kind := message.GetKind().(type) {
	case *linkv1.AgentMessage_Credit:
		from.grant(kind.Credit)
		s.config.Events.Received(from.agent, message)
	case *linkv1.AgentMessage_Progress, *linkv1.AgentMessage_Result, *linkv1.AgentMessage_Complete, *linkv1.AgentMessage_Goodbye:
		s.config.Events.Received(from.agent, message)
	default:
		s.metrics.drop(droppedUnknown) // a second Hello, or something from a later version
	}
}

// echo extends both leases: ours before the agent's, because the receipt is recorded before the echo is sent.
func (s *Server) echo(to *session, heartbeat *linkv1.Heartbeat) bool {
	return to.echo(heartbeat.GetSequence(), func() { s.registry.hear(to.agent, time.Now()) })
}

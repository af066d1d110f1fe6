package session

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/connection"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// sendHello sends Hello on a new stream.
func (s *session) sendHello(stream *connection.Stream) {
	s.closeStream()
	s.stream = stream
	s.helloSentAt = s.Clock() // read before sending, so that the lease errs on the safe side
	s.lease.Reconnect(s.helloSentAt)
	s.sequence, s.assignsReceived, s.granted, s.drainingSent = 0, 0, 0, s.ledger.Draining()
	s.connection++
	clear(s.resultSentAt)
	unacknowledged := s.ledger.Unacknowledged()
	results := fittingResults(unacknowledged)
	s.resultsMissing = len(results) < len(unacknowledged)
	for _, result := range results {
		s.resultSentAt[result.GetAttempt().Key()] = s.helloSentAt
	}
	stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Hello{Hello: &linkv1.Hello{
		Protocol: linkv1.Protocol, Features: linkv1.Features(), Version: s.Version,
		Namespace: s.Namespace, Swarm: s.Swarm, Agent: s.Agent, Slots: int32(s.Slots),
		Running: s.ledger.Running(), Unacknowledged: results, Draining: s.ledger.Draining(), Term: s.term, TermProof: s.termProof,
		Process: s.Process, Connection: s.connection, Partial: s.resultsMissing, Lease: s.currentLease(),
	}}})
}

// currentLease returns the lease of the last Welcome. It is nil before the first, and when that lease is over, because a shorter one may be
// stored since.
func (s *session) currentLease() *durationpb.Duration {
	switch s.lease.Phase(s.helloSentAt) {
	case lease.NotGranted, lease.Expired:
		return nil
	}
	return durationpb.New(s.lease.Length())
}

// fittingResults returns the results, oldest first, that fit into Hello.
func fittingResults(results []*linkv1.Result) []*linkv1.Result {
	size := 0
	for n, result := range results {
		size += proto.Size(result)
		if n == maxResultsInHello || size > maxResultBytesInHello {
			return results[:n]
		}
	}
	return results
}

// sendComplete sends what did not fit into Hello. Until then the operator draws no conclusions from what is missing.
func (s *session) sendComplete() {
	if !s.resultsMissing {
		return
	}
	s.resultsMissing = false
	for _, result := range s.ledger.Unacknowledged() {
		if _, wasSent := s.resultSentAt[result.GetAttempt().Key()]; !wasSent {
			s.sendResult(result)
		}
	}
	s.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Complete{Complete: &linkv1.Complete{}}})
}

// handleMessage handles a message of the operator. It ignores messages before Welcome, and those of later versions that it does not know.
func (s *session) handleMessage(message *linkv1.OperatorMessage) {
	switch kind := message.GetKind().(type) {
	case *linkv1.OperatorMessage_Welcome:
		s.handleWelcome(kind.Welcome)
	case *linkv1.OperatorMessage_Redirect:
		s.Log.Info("another operator leads", "address", kind.Redirect.GetAddress())
		s.stream.Redirect(kind.Redirect.GetAddress())
		s.closeStream()
	case *linkv1.OperatorMessage_Refuse:
		s.Log.Error("the operator refuses this agent", "reason", kind.Refuse.GetReason(), "message", kind.Refuse.GetMessage())
		s.closeStream()
	default:
		if s.welcomed {
			s.handleSessionMessage(message)
		}
	}
}

func (s *session) handleSessionMessage(message *linkv1.OperatorMessage) {
	switch kind := message.GetKind().(type) {
	case *linkv1.OperatorMessage_Echo:
		s.lease.RecordEcho(kind.Echo.GetSequence())
		s.watchdog.SetDeadline(s.lease.ExpiresAt())
	case *linkv1.OperatorMessage_Assign:
		s.handleAssign(kind.Assign)
	case *linkv1.OperatorMessage_Cancel:
		s.handleCancel(kind.Cancel)
	case *linkv1.OperatorMessage_Drain:
		s.handleDrain(kind.Drain)
	case *linkv1.OperatorMessage_Acknowledge:
		s.handleAcknowledge(kind.Acknowledge.GetAttempt())
	case *linkv1.OperatorMessage_Peers:
		s.peers = nil
		for _, peer := range kind.Peers.GetPeers() {
			s.peers = append(s.peers, peer.GetAgent())
		}
	}
}

// handleWelcome begins to work for a leader, unless it is a former one.
func (s *session) handleWelcome(welcome *linkv1.Welcome) {
	if welcome.GetTerm() < s.term && !welcome.GetResetTerm() || welcome.GetLease().AsDuration() <= 0 {
		s.Log.Warn("disconnecting from a former leader", "term", welcome.GetTerm(), "newest", s.term)
		s.closeStream()
		return
	}
	s.term, s.termProof = welcome.GetTerm(), welcome.GetTermProof()
	s.welcomed = true
	s.lease.RecordWelcome(welcome.GetLease().AsDuration())
	s.watchdog.SetDeadline(s.lease.ExpiresAt())
	s.stream.MarkWelcomed()
	s.Log.Info("linked", "term", s.term, "lease", welcome.GetLease().AsDuration(), "running", len(s.attempts))
	s.sendHeartbeat()
	s.sendComplete()
	s.sendCredit()
}

// sendHeartbeat sends a heartbeat.
func (s *session) sendHeartbeat() {
	s.sequence++
	s.heartbeatSentAt = s.Clock()
	s.lease.RecordHeartbeat(s.sequence, s.heartbeatSentAt)
	s.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Heartbeat{Heartbeat: &linkv1.Heartbeat{Sequence: s.sequence}}})
}

// sendCredit sends the operator the number of Assigns that it may have sent. The number never shrinks: an Assign that was allowed may be in
// transit.
func (s *session) sendCredit() {
	if !s.welcomed {
		return
	}
	granted, draining := max(s.granted, s.assignsReceived+int64(s.ledger.FreeSlots())), s.ledger.Draining()
	if granted == s.granted && draining == s.drainingSent {
		return
	}
	s.granted, s.drainingSent = granted, draining
	s.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Credit{Credit: &linkv1.Credit{Granted: granted, Draining: draining}}})
}

func (s *session) handleCancel(request *linkv1.Cancel) {
	running := s.attempts[request.GetAttempt().Key()]
	if running == nil {
		return
	}
	stopRequest := attempt.StopRequest{Outcome: linkv1.Outcome_OUTCOME_CANCELLED, Reason: request.GetReason(),
		Message: "the operator cancelled it", Grace: s.graceOrDefault(request.GetGrace())}
	if request.GetHandBack() {
		stopRequest.Outcome, stopRequest.Message = linkv1.Outcome_OUTCOME_HANDED_BACK, "the operator asked for it back"
	}
	running.Stop(stopRequest)
}

// handleDrain gives running attempts some time to finish.
func (s *session) handleDrain(request *linkv1.Drain) {
	s.Log.Info("draining", "reason", request.GetReason(), "finish", request.GetFinish().AsDuration())
	s.ledger.Drain()
	s.drainAt, s.drainDue = s.Clock()+request.GetFinish().AsDuration(), true
	s.sendCredit()
}

func (s *session) handleAcknowledge(linkAttempt *linkv1.Attempt) {
	key := linkAttempt.Key()
	s.Journal.Acknowledged(linkAttempt)
	s.ledger.Acknowledge(key)
	delete(s.resultSentAt, key)
	s.sendCredit() // too many unacknowledged results hold credit back
}

func (s *session) graceOrDefault(requested *durationpb.Duration) time.Duration {
	if requested == nil {
		return s.Grace
	}
	return max(0, requested.AsDuration())
}

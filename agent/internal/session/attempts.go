package session

import (
	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	"github.com/swarm-io/swarm-operator/agent/internal/ledger"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// reasonLeaseEnding is the reason of attempts that were not started because the operator is silent.
const reasonLeaseEnding = "LeaseEnding"

// handleAssign starts an attempt, or declines it with a reason.
func (s *session) handleAssign(request *linkv1.Assign) {
	s.assignsReceived++
	linkAttempt := request.GetAttempt()
	decision := s.decide(linkAttempt)
	switch {
	case decision.Start:
		s.startAttempt(request)
	case decision.Reason != "":
		s.Log.Warn("declined an attempt", "task", linkAttempt.GetTask(), "epoch", linkAttempt.GetEpoch(), "reason", decision.Reason)
		if decision.Reason == ledger.ReasonRunning {
			s.stopOlder(linkAttempt.Key())
		}
		s.deliverResult(&linkv1.Result{Attempt: linkAttempt, Outcome: linkv1.Outcome_OUTCOME_DECLINED, Reason: decision.Reason,
			Message: decision.Message})
	default:
		s.resendResult(linkAttempt.Key())
	}
	s.sendCredit()
}

// decide declines everything while the operator is silent: an Assign that was long in transit may come from a former leader.
func (s *session) decide(linkAttempt *linkv1.Attempt) ledger.Decision {
	if s.lease.Phase(s.Clock()) != lease.Held && !s.ledger.IsTracked(linkAttempt.Key()) {
		return ledger.Decision{Reason: reasonLeaseEnding, Message: "the operator has not echoed two heartbeats"}
	}
	return s.ledger.Decide(linkAttempt)
}

func (s *session) startAttempt(request *linkv1.Assign) {
	linkAttempt := request.GetAttempt()
	limits := attempt.Limits{
		RunTimeout:      request.GetRunTimeout().AsDuration(),
		ProgressTimeout: request.GetProgressTimeout().AsDuration(),
		Grace:           s.graceOrDefault(request.GetGrace()),
	}
	s.Log.Info("started attempt", "task", linkAttempt.GetTask(), "uid", linkAttempt.GetTaskUid(), "attempt", linkAttempt.GetAttempt(), "epoch",
		linkAttempt.GetEpoch())
	s.Journal.Started(linkAttempt)
	running := &runningAttempt{Attempt: attempt.New(limits, s.notify), grace: limits.Grace}
	s.attempts[linkAttempt.Key()] = running
	release := s.watchdog.Watch(running.Expire)
	running.Start(s.NewWork(request, s.peers), func(end attempt.Result) {
		release()
		s.attemptEnds <- attemptEnd{linkAttempt, end}
	})
}

// notify is called by attempts and by the watchdog, on any goroutine. It never blocks.
func (s *session) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stopOlder stops the attempt that a newer assignment of the same work replaces.
func (s *session) stopOlder(newer linkv1.AttemptKey) {
	for key, running := range s.attempts {
		if key.WorkKey == newer.WorkKey {
			running.Stop(attempt.StopRequest{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "Superseded",
				Message: "the same work was assigned again", Grace: s.Grace})
		}
	}
}

func (s *session) handleFinished(end attemptEnd) {
	key := end.attempt.Key()
	s.sendProgress() // the last progress goes before the result
	delete(s.attempts, key)
	s.Journal.Finished(end.attempt, end.result.Outcome, end.result.Reason == attempt.ReasonLeaseExpired)
	s.Log.Info("attempt ended", "task", end.attempt.GetTask(), "epoch", end.attempt.GetEpoch(),
		"outcome", end.result.Outcome, "reason", end.result.Reason, "message", end.result.Message)
	s.deliverResult(&linkv1.Result{
		Attempt: end.attempt, Outcome: end.result.Outcome, Value: end.result.Value,
		Reason: end.result.Reason, Message: end.result.Message,
	})
	s.sendCredit()
	s.lastEndAt = s.Clock()
}

// deliverResult stores a result until it is acknowledged, and sends it if there is a stream.
func (s *session) deliverResult(result *linkv1.Result) {
	s.ledger.StoreResult(result)
	s.sendResult(result)
}

func (s *session) sendResult(result *linkv1.Result) {
	if !s.welcomed {
		return
	}
	s.resultSentAt[result.GetAttempt().Key()] = s.Clock()
	s.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: result}})
}

// resendResult answers a repeated Assign with its result, if there is one.
func (s *session) resendResult(key linkv1.AttemptKey) {
	for _, result := range s.ledger.Unacknowledged() {
		if result.GetAttempt().Key() == key {
			s.sendResult(result)
		}
	}
}

// sendProgress sends the latest progress of each attempt.
func (s *session) sendProgress() {
	s.progressDue = false
	s.progressAt = s.Clock() + minProgressInterval
	for _, linkAttempt := range s.ledger.Running() {
		running := s.attempts[linkAttempt.Key()]
		if running == nil || !s.welcomed {
			continue
		}
		if percent, message, isNew := running.Progress(); isNew {
			s.progressAt += progressIntervalPerAttempt
			progress := &linkv1.Progress{Attempt: linkAttempt, Percent: percent, Message: message}
			s.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: progress}})
		}
	}
}

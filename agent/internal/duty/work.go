package duty

import (
	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	"github.com/swarm-io/swarm-operator/agent/internal/ledger"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// reasonEnding goes with what was not started because the operator is silent.
const reasonEnding = "LeaseEnding"

// assign starts an attempt, or declines it with a reason.
func (d *duty) assign(order *linkv1.Assign) {
	d.taken++
	given := order.GetAttempt()
	verdict := d.judge(given)
	switch {
	case verdict.Start:
		d.start(order)
	case verdict.Reason != "":
		d.Log.Warn("declined an attempt", "task", given.GetTask(), "epoch", given.GetEpoch(), "reason", verdict.Reason)
		if verdict.Reason == ledger.ReasonRunning {
			d.stopOlder(given.Key())
		}
		d.tell(&linkv1.Result{Attempt: given, Outcome: linkv1.Outcome_OUTCOME_DECLINED, Reason: verdict.Reason, Message: verdict.Message})
	default:
		d.repeat(given.Key())
	}
	d.grant()
}

// judge takes nothing while the operator is silent: an order that was under way for long may be one of a leader of the past.
func (d *duty) judge(given *linkv1.Attempt) ledger.Verdict {
	if d.lease.Phase(d.Clock()) != lease.Held && !d.ledger.Knows(given.Key()) {
		return ledger.Verdict{Reason: reasonEnding, Message: "the operator has not echoed two heartbeats"}
	}
	return d.ledger.Decide(given)
}

func (d *duty) start(order *linkv1.Assign) {
	given := order.GetAttempt()
	limits := attempt.Limits{
		Run:     order.GetRunTimeout().AsDuration(),
		Silence: order.GetProgressTimeout().AsDuration(),
		Grace:   d.graceOf(order.GetGrace()),
	}
	d.Log.Info("attempt starts", "task", given.GetTask(), "uid", given.GetTaskUid(), "attempt", given.GetAttempt(), "epoch", given.GetEpoch())
	d.Journal.Started(given)
	code := &running{Attempt: attempt.New(limits, d.hasNews), grace: limits.Grace}
	d.attempts[given.Key()] = code
	release := d.watchdog.Watch(code.Expire)
	code.Start(d.Work(order, d.peers), func(end attempt.End) {
		release()
		d.ended <- finished{given, end}
	})
}

// hasNews is called by attempts and by the watchdog, from anywhere. It never waits.
func (d *duty) hasNews() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// stopOlder makes room for a newer assignment of the same work.
func (d *duty) stopOlder(newer linkv1.AttemptKey) {
	for key, running := range d.attempts {
		if key.WorkKey == newer.WorkKey {
			running.Stop(attempt.Stop{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "Superseded", Message: "the same work was assigned again", Grace: d.Grace})
		}
	}
}

func (d *duty) finish(ended finished) {
	key := ended.attempt.Key()
	d.flush() // the last progress goes before the result
	delete(d.attempts, key)
	d.Journal.Finished(ended.attempt, ended.end.Outcome, ended.end.Reason == attempt.ReasonLeaseExpired)
	d.Log.Info("attempt ended", "task", ended.attempt.GetTask(), "epoch", ended.attempt.GetEpoch(),
		"outcome", ended.end.Outcome, "reason", ended.end.Reason, "message", ended.end.Message)
	d.tell(&linkv1.Result{
		Attempt: ended.attempt, Outcome: ended.end.Outcome, Value: ended.end.Value,
		Reason: ended.end.Reason, Message: ended.end.Message,
	})
	d.grant()
	d.stoppingAt = d.Clock()
}

// tell keeps a result until it is acknowledged, and sends it if there is a stream.
func (d *duty) tell(result *linkv1.Result) {
	d.ledger.Finish(result)
	d.send(result)
}

func (d *duty) send(result *linkv1.Result) {
	if !d.welcomed {
		return
	}
	d.sentAt[result.GetAttempt().Key()] = d.Clock()
	d.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: result}})
}

// repeat answers a repeated Assign: if its result is there, once more.
func (d *duty) repeat(key linkv1.AttemptKey) {
	for _, result := range d.ledger.Unacknowledged() {
		if result.GetAttempt().Key() == key {
			d.send(result)
		}
	}
}

// flush sends the latest progress of each attempt.
func (d *duty) flush() {
	d.flushDue = false
	d.flushAt = d.Clock() + progressEvery
	for _, given := range d.ledger.Running() {
		running := d.attempts[given.Key()]
		if running == nil || !d.welcomed {
			continue
		}
		if percent, message, isNew := running.Progress(); isNew {
			d.flushAt += progressEach
			progress := &linkv1.Progress{Attempt: given, Percent: percent, Message: message}
			d.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: progress}})
		}
	}
}

package task

import (
	"fmt"
	"slices"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// Work is the behavior of a task's code. The zero value succeeds at once.
type work struct {
	takes    time.Duration
	outcome  linkv1.Outcome // SUCCEEDED if not set
	reason   string
	value    string        // of the result; its epoch if not set
	stops    time.Duration // how long it takes to stop
	stubborn bool          // it never stops by itself
	dies     time.Duration // how long it runs after being killed
	reports  bool          // progress, every second
}

// take accepts or declines an assignment like the ledger.
func (p *process) take(attempt *linkv1.Attempt) {
	p.taken++
	if p.taken > p.granted {
		p.world.problem("%v was sent %d assignments and allowed %d", p, p.taken, p.granted)
	}
	key, now := attempt.Key(), time.Now()
	reason := ""
	switch older := p.running[key.WorkKey]; {
	case older != nil && older.attempt.Key() == key || p.has(key):
		p.world.problem("%v was sent epoch %d twice", p, key.Epoch)
		return
	case !now.Before(p.lease.silence()):
		reason = "LeaseEnding"
	case key.Epoch <= p.newest[key.WorkKey]:
		reason = "StaleEpoch"
		p.world.problem("%v was sent epoch %d of %s after %d", p, key.Epoch, attempt.GetTask(), p.newest[key.WorkKey])
	case older != nil:
		reason = "PreviousAttemptRunning"
		older.stop(linkv1.Outcome_OUTCOME_HANDED_BACK, "Superseded", now)
	case len(p.running) >= p.slots:
		reason = "NoFreeSlot"
		p.world.problem("%v was sent more than its slots hold", p)
	}
	if reason != "LeaseEnding" {
		p.newest[key.WorkKey] = max(p.newest[key.WorkKey], key.Epoch)
	}
	if reason != "" {
		p.world.journal.declined(attempt, reason)
		p.tellResult(&linkv1.Result{Attempt: attempt, Outcome: linkv1.Outcome_OUTCOME_DECLINED, Reason: reason})
	} else {
		p.begin(attempt, now)
	}
	p.grant()
}

func (p *process) begin(attempt *linkv1.Attempt, now time.Time) {
	does := p.world.workOf(attempt)
	p.running[attempt.Key().WorkKey] = &job{attempt: attempt, work: does, began: now, ends: now.Add(does.takes)}
	p.world.journal.start(attempt, p)
}

func (p *process) has(key linkv1.AttemptKey) bool {
	return slices.ContainsFunc(p.results, func(r *linkv1.Result) bool { return r.GetAttempt().Key() == key })
}

func (p *process) cancel(order *linkv1.Cancel) {
	running := p.running[order.GetAttempt().Key().WorkKey]
	if running == nil || running.attempt.Key() != order.GetAttempt().Key() {
		return
	}
	p.world.journal.cancelled(order)
	outcome := linkv1.Outcome_OUTCOME_CANCELLED
	if order.GetHandBack() {
		outcome = linkv1.Outcome_OUTCOME_HANDED_BACK
	}
	running.stop(outcome, order.GetReason(), time.Now())
}

// stop asks the code to end. The first stop determines the reason.
func (j *job) stop(outcome linkv1.Outcome, reason string, now time.Time) {
	if j.stopped != 0 {
		return
	}
	j.stopped, j.reason = outcome, reason
	if !j.work.stubborn {
		j.endBy(now.Add(j.work.stops))
	}
}

func (j *job) endBy(at time.Time) {
	if at.Before(j.ends) {
		j.ends = at
	}
}

// finish creates the result of an attempt.
func (p *process) finish(ended *job) {
	delete(p.running, ended.attempt.Key().WorkKey)
	result := &linkv1.Result{Attempt: ended.attempt, Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Reason: ended.work.reason}
	well := !ended.ends.Before(ended.began.Add(ended.work.takes))
	if ended.work.outcome != 0 {
		result.Outcome = ended.work.outcome
	}
	inTime := ended.stopped == linkv1.Outcome_OUTCOME_HANDED_BACK && well && result.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED
	if ended.stopped != 0 && !inTime {
		result.Outcome, result.Reason = ended.stopped, ended.reason
	}
	if result.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED {
		result.Value = fmt.Appendf(nil, `{"epoch":%d}`, ended.attempt.GetEpoch())
		if ended.work.value != "" {
			result.Value = []byte(ended.work.value)
		}
	}
	p.world.journal.finish(ended.attempt, result.Outcome.String())
	p.tellResult(result)
	p.grant()
}

func (p *process) tellResult(result *linkv1.Result) {
	p.results = append(p.results, result)
	p.send(result)
}

func (p *process) send(result *linkv1.Result) {
	if !p.welcomed {
		return
	}
	p.sentAt[result.GetAttempt().Key()] = time.Now()
	p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: result}})
}

// forget handles the acknowledgement of a result.
func (p *process) forget(key linkv1.AttemptKey) {
	p.results = slices.DeleteFunc(p.results, func(r *linkv1.Result) bool {
		if r.GetAttempt().Key() != key {
			return false
		}
		p.world.journal.acknowledged(r)
		return true
	})
}

// report sends the progress of the code, in percent of its time.
func (p *process) report(now time.Time) {
	for _, running := range p.running {
		percent := int32(now.Sub(running.began) * 100 / max(running.work.takes, 1))
		if p.welcomed && running.work.reports && percent > running.progress {
			running.progress = percent
			p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: running.attempt, Percent: percent}}})
		}
	}
}

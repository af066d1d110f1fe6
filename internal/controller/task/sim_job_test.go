package task

import (
	"fmt"
	"slices"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// Work is the behavior of a task's code. The zero value succeeds at once.
type behavior struct {
	duration        time.Duration
	outcome         linkv1.Outcome // SUCCEEDED if not set
	reason          string
	value           string        // of the result; its epoch if not set
	stopDelay       time.Duration // how long it takes to stop
	ignoresStop     bool          // it never stops by itself
	killDelay       time.Duration // how long it runs after being killed
	reportsProgress bool          // progress, every second
}

// handleAssign accepts or declines an assignment like the ledger.
func (p *process) handleAssign(attempt *linkv1.Attempt) {
	p.assignedCount++
	if p.assignedCount > p.creditGranted {
		p.sim.problem("%v was sent %d assignments and allowed %d", p, p.assignedCount, p.creditGranted)
	}
	key, now := attempt.Key(), time.Now()
	reason := ""
	switch older := p.jobs[key.WorkKey]; {
	case older != nil && older.attempt.Key() == key || p.hasResult(key):
		p.sim.problem("%v was sent epoch %d twice", p, key.Epoch)
		return
	case !now.Before(p.lease.refuseAt()):
		reason = "LeaseEnding"
	case key.Epoch <= p.newestEpochs[key.WorkKey]:
		reason = "StaleEpoch"
		p.sim.problem("%v was sent epoch %d of %s after %d", p, key.Epoch, attempt.GetTask(), p.newestEpochs[key.WorkKey])
	case older != nil:
		reason = "PreviousAttemptRunning"
		older.stop(linkv1.Outcome_OUTCOME_HANDED_BACK, "Superseded", now)
	case len(p.jobs) >= p.slots:
		reason = "NoFreeSlot"
		p.sim.problem("%v was sent more than its slots hold", p)
	}
	if reason != "LeaseEnding" {
		p.newestEpochs[key.WorkKey] = max(p.newestEpochs[key.WorkKey], key.Epoch)
	}
	if reason != "" {
		p.sim.attempts.recordDecline(attempt, reason)
		p.addResult(&linkv1.Result{Attempt: attempt, Outcome: linkv1.Outcome_OUTCOME_DECLINED, Reason: reason})
	} else {
		p.startJob(attempt, now)
	}
	p.sendCredit()
}

func (p *process) startJob(attempt *linkv1.Attempt, now time.Time) {
	work := p.sim.behaviorOf(attempt)
	p.jobs[attempt.Key().WorkKey] = &job{attempt: attempt, behavior: work, startedAt: now, endsAt: now.Add(work.duration)}
	p.sim.attempts.recordStart(attempt, p)
}

func (p *process) hasResult(key linkv1.AttemptKey) bool {
	return slices.ContainsFunc(p.results, func(r *linkv1.Result) bool { return r.GetAttempt().Key() == key })
}

func (p *process) handleCancel(order *linkv1.Cancel) {
	job := p.jobs[order.GetAttempt().Key().WorkKey]
	if job == nil || job.attempt.Key() != order.GetAttempt().Key() {
		return
	}
	p.sim.attempts.recordCancel(order)
	outcome := linkv1.Outcome_OUTCOME_CANCELLED
	if order.GetHandBack() {
		outcome = linkv1.Outcome_OUTCOME_HANDED_BACK
	}
	job.stop(outcome, order.GetReason(), time.Now())
}

// stop asks the code to end. The first stop determines the reason.
func (j *job) stop(outcome linkv1.Outcome, reason string, now time.Time) {
	if j.stopOutcome != 0 {
		return
	}
	j.stopOutcome, j.stopReason = outcome, reason
	if !j.behavior.ignoresStop {
		j.endBy(now.Add(j.behavior.stopDelay))
	}
}

func (j *job) endBy(at time.Time) {
	if at.Before(j.endsAt) {
		j.endsAt = at
	}
}

// finishJob creates the result of an attempt.
func (p *process) finishJob(job *job) {
	delete(p.jobs, job.attempt.Key().WorkKey)
	result := &linkv1.Result{Attempt: job.attempt, Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Reason: job.behavior.reason}
	well := !job.endsAt.Before(job.startedAt.Add(job.behavior.duration))
	if job.behavior.outcome != 0 {
		result.Outcome = job.behavior.outcome
	}
	inTime := job.stopOutcome == linkv1.Outcome_OUTCOME_HANDED_BACK && well && result.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED
	if job.stopOutcome != 0 && !inTime {
		result.Outcome, result.Reason = job.stopOutcome, job.stopReason
	}
	if result.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED {
		result.Value = fmt.Appendf(nil, `{"epoch":%d}`, job.attempt.GetEpoch())
		if job.behavior.value != "" {
			result.Value = []byte(job.behavior.value)
		}
	}
	p.sim.attempts.recordEnd(job.attempt, result.Outcome.String())
	p.addResult(result)
	p.sendCredit()
}

func (p *process) addResult(result *linkv1.Result) {
	p.results = append(p.results, result)
	p.sendResult(result)
}

func (p *process) sendResult(result *linkv1.Result) {
	if !p.welcomed {
		return
	}
	p.sentAt[result.GetAttempt().Key()] = time.Now()
	p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: result}})
}

// handleAcknowledge handles the acknowledgement of a result.
func (p *process) handleAcknowledge(key linkv1.AttemptKey) {
	p.results = slices.DeleteFunc(p.results, func(r *linkv1.Result) bool {
		if r.GetAttempt().Key() != key {
			return false
		}
		p.sim.attempts.recordAck(r)
		return true
	})
}

// sendProgress sends the progress of the code, in percent of its time.
func (p *process) sendProgress(now time.Time) {
	for _, job := range p.jobs {
		percent := int32(now.Sub(job.startedAt) * 100 / max(job.behavior.duration, 1))
		if p.welcomed && job.behavior.reportsProgress && percent > job.progress {
			job.progress = percent
			p.stream.up.push(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{Progress: &linkv1.Progress{Attempt: job.attempt,
				Percent: percent}}})
		}
	}
}

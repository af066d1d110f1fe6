package task

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// handleEnd records the end of an attempt, and decides what comes next.
func (p *planner) handleEnd(end dispatch.AttemptEnd) {
	stored := isEndStored(&p.Status, end.Epoch)
	if !stored {
		p.recordAttempt(end.Attempt, end.Epoch, end.Since)
		p.Status.AssignedAgents, p.Status.ActiveAttempts = nil, 0
	}
	switch {
	case end.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED && !end.Lost:
		p.succeed(end)
	case end.Outcome == linkv1.Outcome_OUTCOME_BAD_INPUT && !end.Lost:
		p.fail(v1alpha1.ReasonBadInput, end.Message)
	case p.snapshot.stopRequest != nil:
		p.applyStop(*p.snapshot.stopRequest)
	case stored: // the response to the write was lost: nothing is counted twice
	case end.Lost:
		p.reassign(end)
	case end.Outcome == linkv1.Outcome_OUTCOME_FAILED || end.Outcome == linkv1.Outcome_OUTCOME_RETRY:
		p.retry(end)
	default:
		p.handBack(end)
	}
}

// isEndStored reports whether the end of an attempt is stored: its epoch is, and no agent is shown to hold it.
func isEndStored(status *v1alpha1.TaskStatus, epoch int64) bool {
	return status.Epoch >= epoch && !isAssigned(status, epoch)
}

// isAssigned reports whether an agent is shown to hold the attempt with an epoch.
func isAssigned(status *v1alpha1.TaskStatus, epoch int64) bool {
	return slices.ContainsFunc(status.AssignedAgents, func(assigned v1alpha1.AssignedAgent) bool { return assigned.Epoch == epoch })
}

func (p *planner) succeed(end dispatch.AttemptEnd) {
	if len(end.Value) > maxResult {
		p.fail(v1alpha1.ReasonResultTooLarge, fmt.Sprintf(
			"the result has %d bytes, the limit is %d: store it elsewhere and return where it is", len(end.Value), maxResult))
		return
	}
	if err := checkResult(end.Value); err != nil {
		p.fail(v1alpha1.ReasonResultInvalid, fmt.Sprintf("the result is not JSON that the API server can store: %v", err))
		return
	}
	if value := string(bytes.TrimSpace(end.Value)); value != "" && value != "null" { // null is no result: the schema allows none
		p.Status.Result = &apiextensionsv1.JSON{Raw: end.Value}
	}
	p.finish(v1alpha1.TaskCompleted, v1alpha1.ReasonCompleted, "")
	p.Status.Progress, p.Event = 100, ""
}

// reassign counts a lost agent. This is not a failure of the task, unless it happens too often.
func (p *planner) reassign(end dispatch.AttemptEnd) {
	p.Status.Reassignments++
	if p.Status.Reassignments > maxReassignments {
		p.fail(v1alpha1.ReasonTooManyReassignments, fmt.Sprintf(
			"%d agents were lost while they ran it, the last one %s: see whether the work kills its agent", p.Status.Reassignments, end.Agent))
		return
	}
	p.setPending(v1alpha1.ReasonLinkLost, end.Message)
}

// retry tries again after an increasing delay, unless a retry is useless or the limit is reached.
func (p *planner) retry(end dispatch.AttemptEnd) {
	end = withStorableReason(end)
	rules, reason := p.task.Spec.Retry, v1alpha1.Reason(end.Reason)
	limit := int32(3)
	if rules.Limit != nil {
		limit = *rules.Limit
	}
	switch {
	case reason == v1alpha1.ReasonResultTooLarge || slices.Contains(rules.NonRetryable, end.Reason):
		p.fail(reason, describeEnd(end))
	case limit == 0:
		p.fail(reason, describeEnd(end))
	case p.Status.Retries >= limit:
		p.fail(v1alpha1.ReasonRetriesExhausted, fmt.Sprintf("all %d retries failed, the last one with %s: %s", limit, reason, end.Message))
	default:
		p.Status.Retries++
		pause := p.withJitter(backoff(rules, p.Status.Retries), end.Attempt)
		p.setPending(v1alpha1.ReasonRetryBackoff, fmt.Sprintf("attempt %d failed with %s, retry %d of %d in %s: %s",
			end.Attempt, reason, p.Status.Retries, limit, pause.Round(time.Second), end.Message))
		p.setRetryTime(pause)
	}
}

// handBack returns a task that its agent gave up or declined to the queue. This is not a failure of the task and costs no retry. The
// first time it may go to another agent at once; repeated hand-backs have increasing pauses, and in the end the task fails. An attempt
// that its agent never had costs nothing, however often: the dispatcher waits for a second before it tries again.
func (p *planner) handBack(end dispatch.AttemptEnd) {
	if end.Undelivered {
		p.setPending(v1alpha1.ReasonNotDelivered, end.Message)
		return
	}
	if p.now.Sub(end.Since) >= handBackResetPeriod {
		p.Status.HandBacks = 0
	}
	p.Status.HandBacks++
	if p.Status.HandBacks > maxHandBacks {
		p.fail(v1alpha1.ReasonTooManyHandBacks, fmt.Sprintf("%d attempts were handed back, the last one by agent %s: %s",
			p.Status.HandBacks, end.Agent, describeEnd(end)))
		return
	}
	p.setPending(v1alpha1.ReasonHandedBack, fmt.Sprintf("agent %s gave attempt %d back: %s", end.Agent, end.Attempt, describeEnd(end)))
	if before := p.Status.HandBacks - 1; before > 0 {
		p.setRetryTime(p.withJitter(backoff(handBackRules, before), end.Attempt))
	}
}

// describeEnd returns what an agent reports about an end, which may be empty.
func describeEnd(end dispatch.AttemptEnd) string {
	if end.Message != "" {
		return end.Message
	}
	return end.Reason
}

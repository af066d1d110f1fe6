package task

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// conclude records the end of an attempt, and decides what comes next.
func (p *planner) conclude(ended dispatch.AttemptEnd) {
	recorded := isRecorded(&p.Status, ended.Epoch)
	if !recorded {
		p.begin(ended.Attempt, ended.Epoch, ended.Since)
		p.Status.AssignedAgents, p.Status.ActiveAttempts = nil, 0
	}
	switch {
	case ended.Outcome == linkv1.Outcome_OUTCOME_SUCCEEDED && !ended.Lost:
		p.succeed(ended)
	case ended.Outcome == linkv1.Outcome_OUTCOME_BAD_INPUT && !ended.Lost:
		p.fail(v1alpha1.ReasonBadInput, ended.Message)
	case p.world.stop != nil:
		p.stop(*p.world.stop)
	case recorded: // the response to the write was lost: nothing is counted twice
	case ended.Lost:
		p.reassign(ended)
	case ended.Outcome == linkv1.Outcome_OUTCOME_FAILED || ended.Outcome == linkv1.Outcome_OUTCOME_RETRY:
		p.retry(ended)
	default:
		p.handBack(ended)
	}
}

// isRecorded reports whether the end of an attempt is stored: its epoch is, and no agent is shown to hold it.
func isRecorded(status *v1alpha1.TaskStatus, epoch int64) bool {
	return status.Epoch >= epoch && !isAssigned(status, epoch)
}

// isAssigned reports whether an agent is shown to hold the attempt with an epoch.
func isAssigned(status *v1alpha1.TaskStatus, epoch int64) bool {
	return slices.ContainsFunc(status.AssignedAgents, func(given v1alpha1.AssignedAgent) bool { return given.Epoch == epoch })
}

func (p *planner) succeed(ended dispatch.AttemptEnd) {
	if len(ended.Value) > mostResult {
		p.fail(v1alpha1.ReasonResultTooLarge, fmt.Sprintf(
			"the result has %d bytes, the limit is %d: store it elsewhere and return where it is", len(ended.Value), mostResult))
		return
	}
	if err := checkResult(ended.Value); err != nil {
		p.fail(v1alpha1.ReasonResultInvalid, fmt.Sprintf("the result is not JSON that the API server can store: %v", err))
		return
	}
	if value := string(bytes.TrimSpace(ended.Value)); value != "" && value != "null" { // null is no result: the schema allows none
		p.Status.Result = &apiextensionsv1.JSON{Raw: ended.Value}
	}
	p.finish(v1alpha1.TaskCompleted, v1alpha1.ReasonCompleted, "")
	p.Status.Progress, p.Event = 100, ""
}

// reassign counts a lost agent. This is not a failure of the task, unless it happens too often.
func (p *planner) reassign(ended dispatch.AttemptEnd) {
	p.Status.Reassignments++
	if p.Status.Reassignments > mostReassignments {
		p.fail(v1alpha1.ReasonTooManyReassignments, fmt.Sprintf(
			"%d agents were lost while they ran it, the last one %s: see whether the work kills its agent", p.Status.Reassignments, ended.Agent))
		return
	}
	p.pend(v1alpha1.ReasonLinkLost, ended.Message)
}

// retry tries again after an increasing delay, unless a retry is useless or the limit is reached.
func (p *planner) retry(ended dispatch.AttemptEnd) {
	ended = withStorableReason(ended)
	rules, reason := p.task.Spec.Retry, v1alpha1.Reason(ended.Reason)
	limit := int32(3)
	if rules.Limit != nil {
		limit = *rules.Limit
	}
	switch {
	case reason == v1alpha1.ReasonResultTooLarge || slices.Contains(rules.NonRetryable, ended.Reason):
		p.fail(reason, sentence(ended))
	case limit == 0:
		p.fail(reason, sentence(ended))
	case p.Status.Retries >= limit:
		p.fail(v1alpha1.ReasonRetriesExhausted, fmt.Sprintf("all %d retries failed, the last one with %s: %s", limit, reason, ended.Message))
	default:
		p.Status.Retries++
		pause := p.jittered(backoff(rules, p.Status.Retries), ended.Attempt)
		p.pend(v1alpha1.ReasonRetryBackoff, fmt.Sprintf("attempt %d failed with %s, retry %d of %d in %s: %s",
			ended.Attempt, reason, p.Status.Retries, limit, pause.Round(time.Second), ended.Message))
		p.pause(pause)
	}
}

// handBack returns a task that its agent gave up or declined to the queue. This is not a failure of the task and costs no retry. The
// first time it may go to another agent at once; repeated hand-backs have increasing pauses, and in the end the task fails. An attempt
// that its agent never had costs nothing, however often: the board waits for a second before it tries again.
func (p *planner) handBack(ended dispatch.AttemptEnd) {
	if ended.Undelivered {
		p.pend(v1alpha1.ReasonNotDelivered, ended.Message)
		return
	}
	if p.now.Sub(ended.Since) >= steadyRun {
		p.Status.HandBacks = 0
	}
	p.Status.HandBacks++
	if p.Status.HandBacks > mostHandBacks {
		p.fail(v1alpha1.ReasonTooManyHandBacks, fmt.Sprintf("%d attempts were handed back, the last one by agent %s: %s",
			p.Status.HandBacks, ended.Agent, sentence(ended)))
		return
	}
	p.pend(v1alpha1.ReasonHandedBack, fmt.Sprintf("agent %s gave attempt %d back: %s", ended.Agent, ended.Attempt, sentence(ended)))
	if before := p.Status.HandBacks - 1; before > 0 {
		p.pause(p.jittered(backoff(handBackRules, before), ended.Attempt))
	}
}

// sentence returns what an agent reports about an end, which may be empty.
func sentence(ended dispatch.AttemptEnd) string {
	if ended.Message != "" {
		return ended.Message
	}
	return ended.Reason
}

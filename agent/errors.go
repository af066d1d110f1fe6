package agent

import (
	"errors"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/command"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// defaultFailureReason is the reason for a handler's error that has none of its own.
const defaultFailureReason = "HandlerFailed"

// An outcomeError is an error with a meaning for the task.
type outcomeError struct {
	outcome linkv1.Outcome
	reason  string
	err     error
}

func (e *outcomeError) Error() string { return e.err.Error() }
func (e *outcomeError) Unwrap() error { return e.err }

// Retry marks an error after which the same attempt may succeed later, because the task did not cause it.
func Retry(err error) error {
	return &outcomeError{linkv1.Outcome_OUTCOME_RETRY, command.ReasonRetryWanted, err}
}

// BadInput marks an error that every attempt at the task would return.
func BadInput(err error) error {
	return &outcomeError{linkv1.Outcome_OUTCOME_BAD_INPUT, command.ReasonBadInput, err}
}

func errorResult(err error) attempt.Result {
	var outcome *outcomeError
	if errors.As(err, &outcome) {
		return attempt.Result{Outcome: outcome.outcome, Reason: outcome.reason, Message: command.TruncateStart(err.Error())}
	}
	return attempt.Result{Outcome: linkv1.Outcome_OUTCOME_FAILED, Reason: defaultFailureReason, Message: command.TruncateStart(err.Error())}
}

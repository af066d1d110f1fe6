package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// Exit codes with a meaning, from BSD's sysexits.
const (
	exitBadInput = 65 // EX_DATAERR
	exitRetry    = 75 // EX_TEMPFAIL
)

// Reasons of a failed attempt.
const (
	ReasonBadInput    = "BadInput"
	ReasonTooLarge    = "ResultTooLarge"
	ReasonNotStarted  = "CommandNotStarted"
	ReasonFailed      = "CommandFailed"
	ReasonRetryWanted = "RetryRequested"
)

// maxMessageBytes is the maximum length of a message. A Task could hold more, but users would not read it.
const maxMessageBytes = 2 << 10

// ResultOf converts an exit into the outcome of an attempt.
func ResultOf(exit Exit, err error) attempt.Result {
	if err != nil {
		return failureResult(linkv1.Outcome_OUTCOME_FAILED, ReasonNotStarted,
			err.Error()+": does the image hold the program, and may it be executed?")
	}
	switch exit.State.ExitCode() {
	case 0:
		return successResult(exit)
	case exitRetry:
		return failureResult(linkv1.Outcome_OUTCOME_RETRY, ReasonRetryWanted, exitMessage(exit))
	case exitBadInput:
		return failureResult(linkv1.Outcome_OUTCOME_BAD_INPUT, ReasonBadInput, exitMessage(exit))
	}
	return failureResult(linkv1.Outcome_OUTCOME_FAILED, ReasonFailed, exitMessage(exit))
}

// exitMessage returns how the program ended, and the last lines of standard error.
func exitMessage(exit Exit) string {
	if exit.Stderr == "" {
		return exit.State.String()
	}
	return exit.State.String() + ": " + exit.Stderr
}

func failureResult(outcome linkv1.Outcome, reason, message string) attempt.Result {
	return attempt.Result{Outcome: outcome, Reason: reason, Message: TruncateStart(message)}
}

// TruncateStart keeps the end of a message, where programs report what went wrong, and makes it valid UTF-8.
func TruncateStart(message string) string {
	if len(message) > maxMessageBytes {
		message = "..." + message[len(message)-maxMessageBytes:]
	}
	return strings.ToValidUTF8(message, "\uFFFD")
}

func successResult(exit Exit) attempt.Result {
	value := ToJSON(exit.Output)
	if exit.Overflow || len(value) > MaxResultBytes {
		return TooLargeResult()
	}
	return attempt.Result{Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Value: value}
}

// TooLargeResult returns the outcome of an attempt whose result is too large.
func TooLargeResult() attempt.Result {
	message := fmt.Sprintf("the result is above the limit of %d bytes (4 KiB): store it elsewhere and return where it is", MaxResultBytes)
	return failureResult(linkv1.Outcome_OUTCOME_FAILED, ReasonTooLarge, message)
}

// ToJSON returns the output itself if it is JSON, else a JSON string of it, and nothing if it is empty.
func ToJSON(output []byte) []byte {
	output = bytes.ToValidUTF8(bytes.TrimSpace(output), []byte("\uFFFD"))
	if len(output) == 0 {
		return nil
	}
	var compact bytes.Buffer
	if json.Compact(&compact, output) == nil {
		return compact.Bytes()
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(string(output)); err != nil {
		panic(fmt.Sprintf("encode text as JSON: %v", err)) // a string can always be encoded
	}
	return bytes.TrimSpace(quoted.Bytes())
}

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

// mostMessage is how long a message may be; a Task holds more, but that is more than users read.
const mostMessage = 2 << 10

// Verdict makes an outcome of an exit.
func Verdict(exit Exit, err error) attempt.End {
	if err != nil {
		return failure(linkv1.Outcome_OUTCOME_FAILED, ReasonNotStarted, err.Error()+": does the image hold the program, and may it be executed?")
	}
	switch exit.State.ExitCode() {
	case 0:
		return success(exit)
	case exitRetry:
		return failure(linkv1.Outcome_OUTCOME_RETRY, ReasonRetryWanted, said(exit))
	case exitBadInput:
		return failure(linkv1.Outcome_OUTCOME_BAD_INPUT, ReasonBadInput, said(exit))
	}
	return failure(linkv1.Outcome_OUTCOME_FAILED, ReasonFailed, said(exit))
}

// said is how the program ended, and the last lines of standard error.
func said(exit Exit) string {
	if exit.Stderr == "" {
		return exit.State.String()
	}
	return exit.State.String() + ": " + exit.Stderr
}

func failure(outcome linkv1.Outcome, reason, message string) attempt.End {
	return attempt.End{Outcome: outcome, Reason: reason, Message: Shorten(message)}
}

// Shorten keeps the end of a message, which is where programs say what went wrong, and makes it valid text.
func Shorten(message string) string {
	if len(message) > mostMessage {
		message = "..." + message[len(message)-mostMessage:]
	}
	return strings.ToValidUTF8(message, "\uFFFD")
}

func success(exit Exit) attempt.End {
	value := AsJSON(exit.Output)
	if exit.Overflow || len(value) > MostResult {
		return TooLarge()
	}
	return attempt.End{Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED, Value: value}
}

// TooLarge is the end of an attempt that returns too much.
func TooLarge() attempt.End {
	message := fmt.Sprintf("the result is above the limit of %d bytes (4 KiB): store it elsewhere and return where it is", MostResult)
	return failure(linkv1.Outcome_OUTCOME_FAILED, ReasonTooLarge, message)
}

// AsJSON is the output itself when it is JSON, a JSON string of it when it is not, and nothing when there is none.
func AsJSON(output []byte) []byte {
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

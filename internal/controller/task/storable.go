package task

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

const (
	// mostResult is what a status may hold inline.
	mostResult = 4 << 10
	// mostMessage and mostReason are what the API server accepts.
	mostMessage, mostReason = 4096, 128
	// mostID is how long the names of pods and processes may be. Agents choose the latter.
	mostID = 64
)

// reasons is the pattern of status.reason in the schema, without the empty reason, which no condition may have.
var reasons = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$`)

// checkResult reports why the API server could not store a result. It reads the value with the decoder that the API server uses, which
// has no numbers beyond those of an int64 or a float64.
func checkResult(value []byte) error {
	var decoded any
	switch {
	case len(value) == 0:
		return nil
	case !utf8.Valid(value):
		return errors.New("it is not UTF-8")
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(value, &decoded)
}

// storableID reports whether a name of a process can be stored. One that cannot is left out: its end is not proven to the next leader then.
func storableID(id string) bool { return id != "" && len(id) <= mostID && utf8.ValidString(id) }

// withStorableReason replaces a reason that the API server would refuse, and keeps it in the message.
func withStorableReason(ended dispatch.End) dispatch.End {
	if len(ended.Reason) <= mostReason && reasons.MatchString(ended.Reason) {
		return ended
	}
	if ended.Reason != "" {
		ended.Message = fmt.Sprintf("the agent gave the reason %q, which is not a valid one: %s", ended.Reason, ended.Message)
	}
	ended.Reason = string(v1alpha1.ReasonAttemptFailed)
	return ended
}

// short makes a message storable. It keeps the end, where programs say what went wrong.
func short(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= mostMessage {
		return message
	}
	return "..." + strings.ToValidUTF8(message[len(message)-mostMessage+3:], "")
}

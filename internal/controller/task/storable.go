package task

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

const (
	// maxResult limits an inline result in the status.
	maxResult = 4 << 10
	// maxMessage and maxReason are the limits of the API server.
	maxMessage, maxReason = 4096, 128
	// maxID limits the names of pods and processes. Agents choose the latter.
	maxID = 64
)

// validReason is the pattern of status.reason in the schema, without the empty reason, which conditions do not allow.
var validReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$`)

// checkResult reports why the API server could not store a result. It uses the same decoder as the API server, which supports only
// numbers of an int64 or a float64.
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

// isStorableID reports whether the name of a process can be stored. Otherwise it is omitted, and the next leader has no proof of its end.
func isStorableID(id string) bool { return id != "" && len(id) <= maxID && utf8.ValidString(id) }

// withStorableReason replaces a reason that the API server would refuse, and keeps it in the message.
func withStorableReason(end dispatch.AttemptEnd) dispatch.AttemptEnd {
	if len(end.Reason) <= maxReason && validReason.MatchString(end.Reason) {
		return end
	}
	if end.Reason != "" {
		end.Message = fmt.Sprintf("the agent gave the reason %q, which is not a valid one: %s", end.Reason, end.Message)
	}
	end.Reason = string(v1alpha1.ReasonAttemptFailed)
	return end
}

// truncateMessage makes a message storable. It keeps the end, where programs report what went wrong.
func truncateMessage(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= maxMessage {
		return message
	}
	return "..." + strings.ToValidUTF8(message[len(message)-maxMessage+3:], "")
}

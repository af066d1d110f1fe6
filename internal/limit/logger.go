package limit

import (
	"strings"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxLoggedBytes exceeds any name that an API server sends.
const maxLoggedBytes = 256

// Logger adds an admission request to log lines. Anyone who reaches the webhook chooses the names, so they are truncated.
func Logger(base logr.Logger, request *admission.Request) logr.Logger {
	if request == nil {
		return base
	}
	return base.WithValues(
		"namespace", truncate(request.Namespace), "name", truncate(request.Name), "resource", truncate(request.Resource.Resource),
		"user", truncate(request.UserInfo.Username), "requestID", truncate(string(request.UID)))
}

// truncate shortens a text, and lets the rest of it be freed.
func truncate(text string) string {
	if len(text) <= maxLoggedBytes {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxLoggedBytes]), "") + "..."
}

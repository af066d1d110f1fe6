package limit

import (
	"strings"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxLogged exceeds any name that an API server sends.
const maxLogged = 256

// Logger adds an admission request to log lines. Anyone who reaches the webhook chooses the names, so they are truncated.
func Logger(base logr.Logger, request *admission.Request) logr.Logger {
	if request == nil {
		return base
	}
	return base.WithValues(
		"namespace", cut(request.Namespace), "name", cut(request.Name), "resource", cut(request.Resource.Resource),
		"user", cut(request.UserInfo.Username), "requestID", cut(string(request.UID)))
}

// cut shortens a text, and lets the rest of it be freed.
func cut(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxLogged]), "") + "..."
}

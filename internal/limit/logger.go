package limit

import (
	"strings"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxLogged is more than any name has that an API server sends.
const maxLogged = 256

// Logger names an admission request in log lines. Anyone who reaches the webhook chooses the names, so they are cut.
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

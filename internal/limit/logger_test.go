package limit

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// logLine returns what is logged about a request.
func logLine(request *admission.Request) (line string) {
	base := funcr.New(func(_, text string) { line = text }, funcr.Options{})
	Logger(base, request).Info("answered")
	return line
}

func TestLoggerNamesTheRequest(t *testing.T) {
	line := logLine(&admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "u", Namespace: "shop", Name: "web-0", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		UserInfo: authenticationv1.UserInfo{Username: "jane"},
	}})
	for _, want := range []string{`"namespace"="shop"`, `"name"="web-0"`, `"resource"="pods"`, `"user"="jane"`, `"requestID"="u"`} {
		if !strings.Contains(line, want) {
			t.Errorf("%s has no %s", line, want)
		}
	}
	if line := logLine(nil); !strings.Contains(line, "answered") {
		t.Errorf("logged %q without a request", line)
	}
}

// A caller other than the API server writes megabytes into any field.
func TestLoggerCutsWhatTheCallerChooses(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	line := logLine(&admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: types.UID(long), Namespace: long, Name: long, Resource: metav1.GroupVersionResource{Resource: long},
		UserInfo: authenticationv1.UserInfo{Username: long},
	}})
	if len(line) > 8*maxLoggedBytes || strings.ContainsRune(line, '\uFFFD') {
		t.Errorf("the line has %d bytes: %.300s", len(line), line)
	}
}

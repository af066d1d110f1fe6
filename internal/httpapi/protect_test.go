package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestProtectRequiresTheRightToGetThePath(t *testing.T) {
	behind := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "shown") })
	for _, c := range []struct {
		reason, path, authorization string
		down                        error
		status                      int
		want                        string
	}{
		{"who may", "/metrics", "Bearer ana", nil, 200, "shown"},
		{"who may, whatever else is asked", "/metrics?name[]=up", "Bearer ana", nil, 200, "shown"},
		{"no token", "/metrics", "", nil, 401, "this path needs a header"},
		{"an unknown token", "/metrics", "Bearer forged", nil, 401, "does not accept the token"},
		{"who may not", "/metrics", "Bearer bo", nil, 403, "cannot get path"},
		{"a right to one path is none to another", "/debug/pprof", "Bearer ana", nil, 403, `User "ana" cannot get path "/debug/pprof"`},
		{"the API server is away", "/metrics", "Bearer ana", errors.New("away"), 503, "review token: away"},
	} {
		of := &fakeReviews{permissions: map[permission]bool{{"get", "/metrics", "", ""}: c.reason != "who may not"}, unavailable: c.down}
		got := send(Protect(DelegatedAuthorizer{fakeTokenReviews{of}, fakeAccessReviews{of}}, nil, behind), http.MethodGet, c.path,
			c.authorization)
		if got.Code != c.status || !strings.Contains(got.Body.String(), c.want) ||
			(c.status != 200) == strings.Contains(got.Body.String(), "shown") {
			t.Errorf("%s: got %d %s", c.reason, got.Code, got.Body)
		}
		if challenged := got.Header().Get("WWW-Authenticate") == "Bearer"; challenged != (c.status == 401) {
			t.Errorf("%s: headers are %v", c.reason, got.Header())
		}
	}
}

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// fakeReviews is an API server for reviews: tokens are the names of their owners, and may lists their rights.
type fakeReviews struct {
	tokenReviews, accessReviews int
	permissions                 map[permission]bool
	reviews                     authorizationv1.SubjectAccessReviewSpec
	unavailable                 error
}

type fakeTokenReviews struct{ *fakeReviews }

func (t fakeTokenReviews) Create(_ context.Context, review *authenticationv1.TokenReview,
	_ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	t.tokenReviews++
	known := review.Spec.Token != "forged"
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{
		Username: review.Spec.Token, UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}},
	}}}, t.unavailable
}

type fakeAccessReviews struct{ *fakeReviews }

func (a fakeAccessReviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview,
	_ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	a.accessReviews++
	a.reviews = review.Spec
	if path := review.Spec.NonResourceAttributes; path != nil {
		return &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{
			Allowed: a.permissions[permission{verb: path.Verb, resource: path.Path}],
		}}, a.unavailable
	}
	of := review.Spec.ResourceAttributes
	allowed := review.Spec.User == "root" || a.permissions[permission{of.Verb, of.Resource, of.Namespace, of.Name}]
	return &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed && of.Group == "swarm.io"}},
		a.unavailable
}

// newTestAPI returns an API over objects.
func newTestAPI(t *testing.T, reviews *fakeReviews, objects ...client.Object) http.Handler {
	t.Helper()
	return New(Config{Reader: newTestReader(t, objects...), Authorizer: DelegatedAuthorizer{fakeTokenReviews{reviews},
		fakeAccessReviews{reviews}}, Log: slog.New(slog.DiscardHandler)})
}

// newTestReader returns a reader of these objects.
func newTestReader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	known := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
}

// get returns the status and the body of an answer.
func get(handler http.Handler, path, token string) (int, string) {
	answer := send(handler, http.MethodGet, path, "Bearer "+token)
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

func send(to http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, nil)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	to.ServeHTTP(answer, request)
	return answer
}

// equalJSON compares JSON.
func equalJSON(t *testing.T, got, want string) {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(want)); err != nil {
		t.Fatal(err)
	}
	if got != compact.String() {
		t.Errorf("got\n%s\nwant\n%s", got, compact.String())
	}
}

func TestAnswersThatNeedNoToken(t *testing.T) {
	of := newTestAPI(t, &fakeReviews{})
	if got := send(of, http.MethodGet, "/healthz", ""); got.Code != http.StatusOK || got.Body.String() != "{\"status\":\"ok\"}\n" {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	if got := send(of, http.MethodGet, "/openapi.json", ""); got.Code != http.StatusOK || !bytes.Equal(got.Body.Bytes(), openAPIDocument) {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}

func TestNotFoundIsReportedInOneLine(t *testing.T) {
	of := newTestAPI(t, &fakeReviews{})
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/v1/agents", 404, `{"error":"there is nothing at /v1/agents: see /openapi.json"}`},
		{"GET", "/v1/pools/", 404, `{"error":"there is nothing at /v1/pools/: see /openapi.json"}`},
		{"GET", "/", 404, `{"error":"there is nothing at /: see /openapi.json"}`},
		{"POST", "/v1/pools", 405, `{"error":"POST is not allowed: this API only reads"}`},
		{"DELETE", "/v1/pools/a/b", 405, `{"error":"DELETE is not allowed: this API only reads"}`},
		{"GET", "/v1/pools/a/b", 404, `{"error":"workerpools.swarm.io \"b\" not found in namespace \"a\""}`},
		{"GET", "/v1/pools//b", 404, `{"error":"workerpools.swarm.io \"b\" not found in namespace \"\""}`},
		{"GET", "/v1/pools/a/b/workers/c", 404, `{"error":"workerpools.swarm.io \"b\" not found in namespace \"a\""}`},
		{"GET", "/v1/tasks?limit=0", 400, `{"error":"limit is \"0\": choose 1 to 5000"}`},
		{"GET", "/v1/tasks?limit=5001", 400, `{"error":"limit is \"5001\": choose 1 to 5000"}`},
		{"GET", "/v1/tasks?limit=all", 400, `{"error":"limit is \"all\": choose 1 to 5000"}`},
		{"GET", "/v1/tasks?continue=a", 400, `{"error":"continue is \"a\": write what the list before had there, namespace/name"}`},
	} {
		got := send(of, c.method, c.path, "Bearer root")
		if got.Code != c.status || strings.TrimSpace(got.Body.String()) != c.want {
			t.Errorf("%s %s: got %d %s", c.method, c.path, got.Code, got.Body)
		}
		if c.status == 405 && got.Header().Get("Allow") != "GET" {
			t.Errorf("%s %s: allowed is %q", c.method, c.path, got.Header().Get("Allow"))
		}
	}
}

// brokenReader is a reader with a bug.
type brokenReader struct{ client.Reader }

func (brokenReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	panic("a mistake")
}

func (brokenReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the cache\nis away")
}

func TestInternalErrorsAreAnswered(t *testing.T) {
	var logs bytes.Buffer
	of := New(Config{Reader: brokenReader{}, Authorizer: DelegatedAuthorizer{fakeTokenReviews{&fakeReviews{}},
		fakeAccessReviews{&fakeReviews{}}}, Log: slog.New(slog.NewJSONHandler(&logs, nil))})
	for range 2 * maxConcurrentReads { // none of which keeps its place
		if status, body := get(of, "/v1/pools", "root"); status != http.StatusInternalServerError ||
			body != `{"error":"a mistake in the operator: its log has more"}` {
			t.Fatalf("got %d %s", status, body)
		}
	}
	if !strings.Contains(logs.String(), "a mistake") || !strings.Contains(logs.String(), "httpapi_test.go") ||
		strings.Contains(logs.String(), "Bearer") {
		t.Errorf("the log has %s", logs.String())
	}
	logs.Reset()
	if status, body := get(of, "/v1/pools/a/b", "root"); status != http.StatusInternalServerError ||
		body != `{"error":"get pool \"b\": the cache is away"}` {
		t.Errorf("got %d %s", status, body)
	}
	if logs.Len() > 0 {
		t.Errorf("the log has %s", logs.String())
	}
}

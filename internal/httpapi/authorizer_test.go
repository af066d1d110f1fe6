package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A fakeSelfReviews is an API server for self reviews. It knows ana, who may list tasks in a, and get metrics.
type fakeSelfReviews struct {
	unavailable bool
	anonymous   bool
	requests    []string // by whom, and for what
}

func (o *fakeSelfReviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, path := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	o.requests = append(o.requests, who+" "+path)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case o.unavailable:
		reply(w, http.StatusInternalServerError, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Message: "etcd is away", Code: 500})
	case who != "ana":
		reply(w, http.StatusUnauthorized, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Message: "Unauthorized",
			Reason: metav1.StatusReasonUnauthorized, Code: 401})
	case path == "selfsubjectreviews":
		if o.anonymous {
			who = anonymous
		}
		reply(w, http.StatusCreated,
			authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: who}}})
	default:
		asked := authorizationv1.SelfSubjectAccessReview{}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		may := []Attributes{permission{"list", "tasks", "a", ""}.attributes(), permission{"get", "/metrics", "", ""}.attributes()}
		asked.Status.Allowed = slices.ContainsFunc(may, func(one Attributes) bool {
			return reflect.DeepEqual(one, Attributes{asked.Spec.ResourceAttributes, asked.Spec.NonResourceAttributes})
		})
		reply(w, http.StatusCreated, asked)
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// newSelfAuthFilter returns a filter that uses self reviews.
func newSelfAuthFilter(t *testing.T, reviews *fakeSelfReviews) *authFilter {
	t.Helper()
	server := httptest.NewServer(reviews)
	t.Cleanup(server.Close)
	made, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return newAuthFilter(SelfAuthorizer{Authentication: made.AuthenticationV1().RESTClient(),
		Authorization: made.AuthorizationV1().RESTClient()}, nil)
}

func TestSelfAuthorizerReviewsItsCallers(t *testing.T) {
	for _, c := range []struct {
		reason, token string
		wanted        permission
		oracle        fakeSelfReviews
		status        int
		want          string
	}{
		{"who may", "ana", permission{"list", "tasks", "a", ""}, fakeSelfReviews{}, 0, ""},
		{"who may not", "ana", permission{"list", "tasks", "b", ""}, fakeSelfReviews{}, 403,
			`User "ana" cannot list resource "tasks" in API group "swarm.io" in the namespace "b"`},
		{"one namespace is not all", "ana", permission{"list", "tasks", "", ""}, fakeSelfReviews{}, 403, "at the cluster scope"},
		{"a path", "ana", permission{"get", "/metrics", "", ""}, fakeSelfReviews{}, 0, ""},
		{"another path", "ana", permission{"get", "/debug", "", ""}, fakeSelfReviews{}, 403, `forbidden: User "ana" cannot get path "/debug"`},
		{"who is unknown", "bo", permission{"list", "tasks", "a", ""}, fakeSelfReviews{}, 401, "the API server does not accept the token"},
		{"an anonymous user", "ana", permission{"list", "tasks", "a", ""}, fakeSelfReviews{anonymous: true}, 401,
			"the API server does not accept the token"},
		{"the API server is away", "ana", permission{"list", "tasks", "a", ""}, fakeSelfReviews{unavailable: true}, 503, "review token"},
	} {
		err := newSelfAuthFilter(t, &c.oracle).check(t.Context(), credential{token: c.token}, c.wanted)
		if c.status == 0 {
			if err != nil {
				t.Errorf("%s: got %v", c.reason, err)
			}
			continue
		}
		if err == nil || statusOf(err) != c.status || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "Bearer") {
			t.Errorf("%s: got %v", c.reason, err)
		}
	}
}

func TestSelfReviewsUseTheTokenOfTheCaller(t *testing.T) {
	of := &fakeSelfReviews{}
	if err := newSelfAuthFilter(t, of).check(t.Context(), credential{token: "ana"}, permission{"list", "tasks", "a", ""}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(of.requests, ", "); got != "ana selfsubjectreviews, ana selfsubjectaccessreviews" {
		t.Errorf("asked were %s", got)
	}
}

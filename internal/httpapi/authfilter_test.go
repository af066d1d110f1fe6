package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

func TestOnlyAuthorizedCallersAreAnswered(t *testing.T) {
	reviews := &fakeReviews{permissions: map[permission]bool{
		{"list", "workerpools", "a", ""}: true, {"get", "workerpools", "a", "p"}: true, {"list", "tasks", "", ""}: true,
	}}
	for _, c := range []struct {
		reason, path, authorization string
		status                      int
		want                        string
	}{
		{"no token", "/v1/pools", "", 401, "this path needs a header `Authorization: Bearer <token>`"},
		{"an empty token", "/v1/pools", "Bearer ", 401, "this path needs a header"},
		{"another scheme", "/v1/pools", "Basic ana", 401, "this path needs a header"},
		{"far too long", "/v1/pools", "Bearer " + strings.Repeat("x", maxTokenBytes+1), 401, "this path needs a header"},
		{"not accepted", "/v1/pools", "Bearer forged", 401, "the API server does not accept the token"},
		{"one namespace is not all", "/v1/pools", "Bearer ana", 403,
			`workerpools.swarm.io is forbidden: User "ana" cannot list resource "workerpools" in API group "swarm.io" at the cluster scope`},
		{"one namespace is not another", "/v1/pools?namespace=b", "Bearer ana", 403,
			`cannot list resource "workerpools" in API group "swarm.io" in the namespace "b"`},
		{"the first counts, for both", "/v1/pools?namespace=b&namespace=a", "Bearer ana", 403, `in the namespace "b"`},
		{"in that namespace", "/v1/pools?namespace=a", "bearer ana", 200, `{"items":[]}`},
		{"list is not get", "/v1/pools/a/q", "Bearer ana", 403,
			`workerpools.swarm.io "q" is forbidden: User "ana" cannot get resource "workerpools" in API group "swarm.io" in the namespace "a"`},
		{"a missing object is reported to authorized callers", "/v1/pools/a/p", "Bearer ana", 404, "not found"},
		{"another kind", "/v1/swarms", "Bearer ana", 403, `cannot list resource "swarms"`},
		{"everywhere", "/v1/tasks", "Bearer ana", 200, `{"items":[]}`},
		{"a bad parameter is reported to authorized callers", "/v1/swarms?limit=x", "Bearer ana", 403, "swarms.swarm.io is forbidden"},
	} {
		got := send(newTestAPI(t, reviews), http.MethodGet, c.path, c.authorization)
		if got.Code != c.status || !strings.Contains(strings.ReplaceAll(got.Body.String(), `\"`, `"`), c.want) {
			t.Errorf("%s: got %d %s", c.reason, got.Code, got.Body)
		}
		if challenged := got.Header().Get("WWW-Authenticate") == "Bearer"; challenged != (c.status == 401) {
			t.Errorf("%s: headers are %v", c.reason, got.Header())
		}
	}
}

func TestReviewIsAboutTheWholeCaller(t *testing.T) {
	reviews := &fakeReviews{}
	get(newTestAPI(t, reviews), "/v1/pools/a/p/workers/w", "ana")
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "ana", UID: "u", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"p"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: "swarm.io", Version: "v1alpha1", Resource: "workerpools",
			Namespace: "a", Name: "p"},
	}
	if !reflect.DeepEqual(reviews.reviews, want) {
		t.Errorf("asked about %+v", reviews.reviews)
	}
}

func TestAnswersAreRememberedForAWhile(t *testing.T) { synctest.Test(t, checkCachedAnswers) }

func checkCachedAnswers(t *testing.T) {
	reviews := &fakeReviews{permissions: map[permission]bool{{"list", "tasks", "", ""}: true}}
	g := newAuthFilter(DelegatedAuthorizer{fakeTokenReviews{reviews}, fakeAccessReviews{reviews}}, nil)
	admit := func(token string, wanted permission, tokenReviews, accessReviews int) {
		t.Helper()
		reviews.tokenReviews, reviews.accessReviews = 0, 0
		_ = g.check(t.Context(), credential{token: token}, wanted)
		if reviews.tokenReviews != tokenReviews || reviews.accessReviews != accessReviews {
			t.Errorf("%d and %d reviews, want %d and %d", reviews.tokenReviews, reviews.accessReviews, tokenReviews, accessReviews)
		}
	}
	all, swarms := permission{"list", "tasks", "", ""}, permission{"list", "swarms", "", ""}
	admit("ana", all, 1, 1)
	admit("ana", all, 0, 0)
	admit("ana", swarms, 0, 1)
	admit("ana", swarms, 0, 0)
	admit("bo", all, 1, 1) // another caller
	admit("forged", all, 1, 0)
	admit("forged", all, 0, 0)
	time.Sleep(2 * time.Second)
	admit("ana", swarms, 0, 0)
	admit("forged", swarms, 0, 0)
	time.Sleep(time.Nanosecond)
	admit("ana", all, 0, 0)
	admit("ana", swarms, 0, 1) // what was denied may be allowed 2 s later
	admit("forged", all, 1, 0)
	time.Sleep(positiveTTL)
	admit("ana", all, 1, 1)
	reviews.unavailable = errors.New("API server is away")
	admit("cy", all, 1, 0)
	reviews.unavailable = nil
	admit("cy", all, 1, 1) // a failure is not cached
}

// A cached refusal reads like the first one.
func TestRememberedRefusalIsTheSame(t *testing.T) {
	of := &fakeReviews{}
	handler := newTestAPI(t, of)
	for _, token := range []string{"forged", "ana"} {
		status, body := get(handler, "/v1/tasks", token)
		reviews := of.tokenReviews + of.accessReviews
		if again, same := get(handler, "/v1/tasks", token); again != status || same != body || of.tokenReviews+of.accessReviews != reviews {
			t.Errorf("%s: got %d %s, then %d %s", token, status, body, again, same)
		}
	}
}

// One client sends a new token with each request. Reviews are bounded, and callers from other addresses are served at once.
func TestFloodOfTokensIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		of := &fakeReviews{permissions: map[permission]bool{{"get", "/metrics", "", ""}: true}}
		authorizer := &oneTokenAuthorizer{DelegatedAuthorizer: DelegatedAuthorizer{fakeTokenReviews{of}, fakeAccessReviews{of}}}
		g := newAuthFilter(authorizer, limit.NewRefusals(registry))
		refused := make(chan int, 1000)
		for n := range cap(refused) {
			go func() {
				refused <- statusOf(g.check(t.Context(), credential{fmt.Sprintf("forged %d", n), "10.0.0.1"}, permission{"get", "/metrics", "", ""}))
			}()
		}
		synctest.Wait()
		began := time.Now()
		if err := g.check(t.Context(), credential{"prometheus", "10.0.0.2"}, permission{"get", "/metrics", "", ""}); err != nil ||
			time.Since(began) > 0 {
			t.Errorf("a good token from elsewhere: %v after %s", err, time.Since(began))
		}
		codes := map[int]int{}
		for range cap(refused) {
			codes[<-refused]++
		}
		most := reviewBurst + reviewsPerSecond*int(reviewTimeout/time.Second)
		if reviews := int(authorizer.reviewCount.Load()); reviews > most || codes[http.StatusUnauthorized] != reviews-1 ||
			codes[http.StatusTooManyRequests] != 1000-reviews+1 {
			t.Errorf("%d reviews of at most %d, answers %v", reviews, most, codes)
		}
		if took := time.Since(began); took > reviewTimeout {
			t.Errorf("the last one waited for %s", took)
		}
		if got := refusalCount(t, registry, "tokenReviews"); got != codes[http.StatusTooManyRequests] {
			t.Errorf("%d are counted", got)
		}
	})
}

// oneTokenAuthorizer knows one token, and counts how often it reviews one.
type oneTokenAuthorizer struct {
	DelegatedAuthorizer
	reviewCount atomic.Int64
}

func (s *oneTokenAuthorizer) Authenticate(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	s.reviewCount.Add(1)
	return authenticationv1.UserInfo{Username: token}, token == "prometheus", nil
}

func refusalCount(t *testing.T, registry *prometheus.Registry, reached string) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range families[0].GetMetric() {
		if series.GetLabel()[0].GetValue() == reached {
			return int(series.GetCounter().GetValue())
		}
	}
	return -1
}

func TestNoAnswerOfTheAPIServerIsNoRefusal(t *testing.T) {
	of := &fakeReviews{unavailable: errors.New("API server is away")}
	if status, body := get(newTestAPI(t, of), "/v1/tasks", "root"); status != http.StatusServiceUnavailable ||
		body != `{"error":"review token: API server is away"}` {
		t.Errorf("got %d %s", status, body)
	}
}

func TestAuthCacheIsBoundedAndHasNoTokens(t *testing.T) {
	m := newAuthCache[int](positiveTTL)
	for n := range 3 * maxCached {
		m.add(newCacheKey(fmt.Sprint(n)), n)
	}
	if kept := len(m.answers.Keys()); kept > maxCached {
		t.Errorf("%d are kept", kept)
	}
	if last, known := m.get(newCacheKey(fmt.Sprint(3*maxCached - 1))); !known || last != 3*maxCached-1 {
		t.Error("what was kept last is gone")
	}
	if newCacheKey("a", "b") == newCacheKey("ab") || newCacheKey("a", "1:b") == newCacheKey("a1:b") {
		t.Error("parts pass for others")
	}
}

func TestSemaphore(t *testing.T) {
	gate := make(semaphore, 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := gate.run(t.Context(), func() error {
		cancel()
		return gate.run(ctx, func() error { return errors.New("two at once") })
	})
	if statusOf(err) != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
	if err := gate.run(t.Context(), func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// An operator that has some namespaces knows nothing of others, and says so only to authorized callers.
func TestOtherNamespacesAreNotFound(t *testing.T) {
	of := &fakeReviews{permissions: map[permission]bool{{"get", "workerpools", "b", "p"}: true, {"list", "tasks", "", ""}: true,
		{"list", "tasks", "b", ""}: true}}
	handler := New(Config{Reader: newTestReader(t), Namespaces: []string{"a"},
		Authorizer: DelegatedAuthorizer{fakeTokenReviews{of}, fakeAccessReviews{of}}, Log: slog.New(slog.DiscardHandler)})
	for path, want := range map[string]int{"/v1/pools/b/p": 404, "/v1/pools/b/q": 403, "/v1/tasks?namespace=b": 404, "/v1/tasks": 200} {
		status, body := get(handler, path, "ana")
		if status != want || (status == 404) != strings.Contains(body, `namespace \"b\" is not one of this operator's: a`) {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
}

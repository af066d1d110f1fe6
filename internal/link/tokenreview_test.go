package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// fakeReviewer answers like an API server; test/integration/link asks a real one.
type fakeReviewer struct {
	calls  atomic.Int64
	answer func(token string) (authenticationv1.TokenReviewStatus, error)
}

func (r *fakeReviewer) Create(_ context.Context, review *authenticationv1.TokenReview,
	_ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.calls.Add(1)
	if len(review.Spec.Audiences) != 1 || review.Spec.Audiences[0] != "swarm.io" {
		return nil, fmt.Errorf("audiences %v", review.Spec.Audiences)
	}
	status, err := r.answer(review.Spec.Token)
	return &authenticationv1.TokenReview{Status: status}, err
}

func validReview() authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"swarm.io"}, User: authenticationv1.UserInfo{
		Username: "system:serviceaccount:ns:default",
		Extra:    map[string]authenticationv1.ExtraValue{podNameClaim: {"coder-0"}, podUIDClaim: {"u-1"}},
	}}
}

func TestReviewIsReadStrictly(t *testing.T) {
	for name, corrupt := range map[string]func(*authenticationv1.TokenReviewStatus){
		"not authenticated":      func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false },
		"another audience":       func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"kubernetes"} },
		"audience not checked":   func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil },
		"a person":               func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "alice" },
		"no pod":                 func(s *authenticationv1.TokenReviewStatus) { delete(s.User.Extra, podNameClaim) },
		"no UID":                 func(s *authenticationv1.TokenReviewStatus) { delete(s.User.Extra, podUIDClaim) },
		"two pods":               func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[podNameClaim] = []string{"a", "b"} },
		"account without a home": func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:serviceaccount:" },
	} {
		t.Run(name, func(t *testing.T) {
			status := validReview()
			corrupt(&status)
			if got, err := identityFromReview(status); !errors.Is(err, ErrDenied) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if got, err := identityFromReview(validReview()); err != nil || got != (Identity{"ns", "coder-0", "u-1"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	reviewer := &fakeReviewer{answer: func(token string) (authenticationv1.TokenReviewStatus, error) {
		switch token {
		case "good":
			return validReview(), nil
		case "bad":
			return authenticationv1.TokenReviewStatus{}, nil
		}
		return authenticationv1.TokenReviewStatus{}, errors.New("API server is away")
	}}
	now := time.Now()
	r := NewTokenReviewer(reviewer)
	r.cache.now = func() time.Time { return now }
	ask := func(token string, calls int64) {
		t.Helper()
		before := reviewer.calls.Load()
		_, err := r.Authenticate(t.Context(), token)
		if (err == nil) != (token == "good") || errors.Is(err, ErrDenied) != (token == "bad" || len(token) > maxTokenBytes) {
			t.Errorf("%s: %v", token, err)
		}
		if got := reviewer.calls.Load() - before; got != calls {
			t.Errorf("%.9s: %d reviews, want %d", token, got, calls)
		}
	}
	ask("good", 1)
	ask("good", 0)
	ask("bad", 1)
	ask("bad", 0)
	ask("trouble", 1)
	ask("trouble", 1) // no answer is no answer to remember
	ask(strings.Repeat("x", maxTokenBytes+1), 0)
	now = now.Add(deniedTTL)
	ask("good", 0)
	ask("bad", 1)
	now = now.Add(acceptedTTL)
	ask("good", 1)
}

func TestAnswersAreBounded(t *testing.T) {
	reviewer := &fakeReviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	r := NewTokenReviewer(reviewer)
	r.limiter = limit.NewFairLimiter(limit.Budget{PerSecond: 1e9, Burst: 1e9, Share: 100})
	for at := range 3 * 4096 {
		_, _ = r.Authenticate(t.Context(), fmt.Sprint(at))
		if got := len(r.cache.deniedReviews) + len(r.cache.acceptedReviews); got > 4096 {
			t.Fatalf("%d answers are remembered", got)
		}
	}
}

// docs/explanation/link.md gives this duration: it is how long a deleted pod may still open a link.
func TestAnswersAreRememberedAsLongAsDocumented(t *testing.T) {
	for token, lifetime := range map[string]time.Duration{"good": 10 * time.Second, "bad": 2 * time.Second} {
		reviewer, now := &fakeReviewer{answer: func(token string) (authenticationv1.TokenReviewStatus, error) {
			status := validReview()
			status.Authenticated = token == "good"
			return status, nil
		}}, time.Now()
		r := NewTokenReviewer(reviewer)
		r.cache.now = func() time.Time { return now }
		for _, step := range []struct {
			passes time.Duration
			calls  int64
		}{{0, 1}, {lifetime - time.Nanosecond, 1}, {time.Nanosecond, 2}} {
			now = now.Add(step.passes)
			_, _ = r.Authenticate(t.Context(), token)
			if got := reviewer.calls.Load(); got != step.calls {
				t.Errorf("%s token: %d reviews after %s more, want %d", token, got, step.passes, step.calls)
			}
		}
	}
}

func TestFloodOfTokensReachesTheAPIServerSlowly(t *testing.T) {
	reviewer := &fakeReviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	r := NewTokenReviewer(reviewer)
	r.limiter = limit.NewFairLimiter(limit.Budget{PerSecond: 0, Burst: reviewBurst, Share: 100})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	unanswered := 0
	for at := range reviewBurst + 500 {
		if _, err := r.Authenticate(ctx, fmt.Sprint(at)); !errors.Is(err, ErrDenied) {
			unanswered++
		}
	}
	if reviewer.calls.Load() > reviewBurst || unanswered < 500 {
		t.Errorf("%d reviews, %d unanswered", reviewer.calls.Load(), unanswered)
	}
}

// A flood of denials fills the space for denials, and the answers about agents stay.
func TestDenialsDoNotEvictAcceptedTokens(t *testing.T) {
	reviewer := &fakeReviewer{answer: func(token string) (authenticationv1.TokenReviewStatus, error) {
		if token == "good" {
			return validReview(), nil
		}
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	r := NewTokenReviewer(reviewer)
	r.limiter = limit.NewFairLimiter(limit.Budget{PerSecond: 1e9, Burst: 1e9, Share: 100})
	now := time.Now()
	r.cache.now = func() time.Time { return now }
	ask := func(token string) { _, _ = r.Authenticate(t.Context(), token) }
	ask("good")
	for n := range 3 * maxCacheEntries {
		ask(fmt.Sprint("bad ", n))
	}
	before := reviewer.calls.Load()
	if ask("good"); reviewer.calls.Load() != before {
		t.Error("the good token was reviewed again")
	}
}

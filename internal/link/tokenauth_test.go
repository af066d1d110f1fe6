package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A fakeCluster issues tokens, and reviews them as an API server does.
type fakeCluster struct {
	*fakeAPIServer // publishes keys
	signer         signer

	mu       sync.Mutex
	issued   map[string]issuedToken
	deleted  map[string]bool // UIDs of pods and of service accounts
	reviews  int
	lists    int
	listErr  error
	unlisted map[string]bool // UIDs of pods that are not in the list yet
	delay    time.Duration   // delay of every answer
}

// An issuedToken is the contents of a token.
type issuedToken struct {
	identity Identity
	account  accountKey
	expires  time.Time
}

func newFakeCluster() *fakeCluster {
	by := newECDSASigner()
	return &fakeCluster{fakeAPIServer: newFakeAPIServer(by), signer: by, issued: map[string]issuedToken{}, deleted: map[string]bool{},
		unlisted: map[string]bool{}, delay: time.Millisecond}
}

func (c *fakeCluster) authenticator() *TokenAuthenticator {
	return NewTokenAuthenticator(TokenOptions{Reviews: c, Documents: c.documents, Pods: c.listPods,
		IsClockReliable: func() bool { return true }})
}

// token returns a token of pod number n, of a service account.
func (c *fakeCluster) token(t testing.TB, n int, serviceAccount string) string {
	t.Helper()
	now := time.Now()
	name := fmt.Sprintf("coder-%d", n)
	issued := issuedToken{
		Identity{"ns", name, "uid-" + name}, accountKey{"system:serviceaccount:ns:" + serviceAccount, "uid-" + serviceAccount},
		now.Add(time.Hour),
	}
	token := c.signer.sign(t, map[string]any{
		"iss": issuer, "aud": []string{Audience}, "sub": issued.account.username, "iat": now.Unix(), "nbf": now.Unix(),
		"exp": issued.expires.Unix(), "jti": name,
		"kubernetes.io": map[string]any{
			"namespace": "ns", "pod": map[string]any{"name": name, "uid": issued.identity.PodUID},
			"serviceaccount": map[string]any{"name": serviceAccount, "uid": issued.account.uid},
		},
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued[token] = issued
	return token
}

// Create implements TokenReviewClient.
func (c *fakeCluster) Create(_ context.Context, review *authenticationv1.TokenReview,
	_ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	time.Sleep(c.delay)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reviews++
	issued, known := c.issued[review.Spec.Token]
	if !known || c.deleted[issued.identity.PodUID] || c.deleted[issued.account.uid] || time.Now().After(issued.expires) {
		return &authenticationv1.TokenReview{}, nil
	}
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{Audience}, User: authenticationv1.UserInfo{
			Username: issued.account.username, UID: issued.account.uid,
			Extra: map[string]authenticationv1.ExtraValue{podNameClaim: {issued.identity.Pod}, podUIDClaim: {issued.identity.PodUID}},
		},
	}}, nil
}

func (c *fakeCluster) listPods(context.Context) ([]Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	var pods []Identity
	for _, issued := range c.issued {
		if !c.deleted[issued.identity.PodUID] && !c.unlisted[issued.identity.PodUID] {
			pods = append(pods, issued.identity)
		}
	}
	return pods, c.listErr
}

// counts returns the requests to the API server since the last call.
func (c *fakeCluster) counts() (reviews, lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reviews, lists = c.reviews, c.lists
	c.reviews, c.lists = 0, 0
	return reviews, lists
}

// authenticateAll has agents with these tokens connect at once, and counts the admitted ones.
func authenticateAll(t *testing.T, authenticator *TokenAuthenticator, tokens []string) (accepted int) {
	t.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, token := range tokens {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := authenticator.Authenticate(ctx, token); err == nil {
				mu.Lock()
				defer mu.Unlock()
				accepted++
			}
		})
	}
	group.Wait()
	return accepted
}

func (c *fakeCluster) tokens(t testing.TB, count int, serviceAccount func(n int) string) []string {
	t.Helper()
	tokens := make([]string, 0, count)
	for n := range count {
		tokens = append(tokens, c.token(t, n, serviceAccount(n)))
	}
	return tokens
}

func oneAccount(int) string { return "agents" }

// 2,000 agents connect to a new leader at once.
func TestManyAgentsCostFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		tokens := c.tokens(t, 2000, func(n int) string { return fmt.Sprintf("agents-%d", n%10) })
		start := time.Now()
		if got := authenticateAll(t, c.authenticator(), tokens); got != 2000 {
			t.Errorf("%d of 2000 were let in", got)
		}
		reviews, lists := c.counts()
		if limit := 10 + directReviewBurst; reviews > limit || lists != 1 || c.fetches != 1 {
			t.Errorf("%d reviews, %d lists of pods, %d fetches of keys: want at most %d, 1 and 1", reviews, lists, c.fetches, limit)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the last one was let in after %s, though every answer takes 1 ms", took)
		}
	})
}

func TestFewAgentsAreReviewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		tokens := c.tokens(t, 10, oneAccount)
		if got := authenticateAll(t, c.authenticator(), tokens); got != 10 {
			t.Errorf("%d of 10 were let in", got)
		}
		if reviews, lists := c.counts(); reviews != 10 || lists != 0 {
			t.Errorf("%d reviews, %d lists of pods: want 10 and 0", reviews, lists)
		}
	})
}

// Whatever was requested when, nothing that is deleted is admitted 10 s later.
func TestDeletedPodsAreAdmittedForTenSecondsAtMost(t *testing.T) {
	for _, deleted := range []string{"uid-coder-7", "uid-agents"} {
		for age := time.Duration(0); age < 12*time.Second; age += 1500 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster()
				tokens := c.tokens(t, 30, oneAccount)
				to := c.authenticator()
				to.directReviews.SetBurst(0) // all go through the list
				authenticateAll(t, to, tokens)
				time.Sleep(age)
				authenticateAll(t, to, tokens)
				c.mu.Lock()
				c.deleted[deleted] = true
				c.mu.Unlock()
				for range 9 {
					time.Sleep(time.Second)
					authenticateAll(t, to, tokens[:7]) // others renew the cached answers
					authenticateAll(t, to, tokens[8:])
				}
				time.Sleep(time.Second)
				if _, err := to.Authenticate(t.Context(), tokens[7]); !errors.Is(err, ErrDenied) {
					t.Errorf("%s deleted %s after the agents came: let in 10 s later (%v)", deleted, age, err)
				}
			})
		}
	}
}

// The API server reviews tokens that cannot be verified here: an agent is never locked out by what this process does not know.
func TestUnverifiableTokensAreReviewed(t *testing.T) {
	for reason, corrupt := range map[string]func(c *fakeCluster, to *TokenAuthenticator){
		"the keys cannot be read":     func(c *fakeCluster, _ *TokenAuthenticator) { c.fetchErr = errors.New("forbidden") },
		"the keys are others":         func(c *fakeCluster, _ *TokenAuthenticator) { c.keys = []signer{newRSASigner()} },
		"another issuer is published": func(c *fakeCluster, _ *TokenAuthenticator) { c.issuer = "https://elsewhere.example.test" },
		"the pods cannot be listed":   func(c *fakeCluster, _ *TokenAuthenticator) { c.listErr = errors.New("forbidden") },
		"the clock is wrong": func(_ *fakeCluster, to *TokenAuthenticator) {
			to.options.IsClockReliable = func() bool { return false }
		},
		"the pods are new": func(c *fakeCluster, _ *TokenAuthenticator) {
			for _, said := range c.issued {
				c.unlisted[said.identity.PodUID] = true
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newFakeCluster()
			tokens, to := c.tokens(t, 100, oneAccount), c.authenticator()
			corrupt(c, to)
			if got := authenticateAll(t, to, tokens); got != 100 {
				t.Errorf("%s: %d of 100 were let in", reason, got)
			}
			if reviews, _ := c.counts(); reviews != 100 {
				t.Errorf("%s: %d reviews, want 100", reason, reviews)
			}
		})
	}
}

func TestTokensDeniedByTheAPIServerAreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		tokens, to := c.tokens(t, 60, oneAccount), c.authenticator()
		authenticateAll(t, to, tokens)
		c.counts()
		forged := c.tokens(t, 1, oneAccount)[0]
		forged = forged[:len(forged)-8] + "AAAAAAAA"
		stranger := newFakeCluster()
		stranger.signer = signer{c.signer.id, c.signer.algorithm, newCurveKey()}
		for reason, token := range map[string]string{
			"forged": forged, "no token": "garbage", "empty": "", "another cluster's": stranger.token(t, 1, "agents"),
		} {
			if _, err := to.Authenticate(t.Context(), token); !errors.Is(err, ErrDenied) {
				t.Errorf("%s: %v", reason, err)
			}
		}
		time.Sleep(time.Hour + maxClockSkew)
		if got := authenticateAll(t, to, tokens); got != 0 {
			t.Errorf("%d tokens were accepted after they had expired", got)
		}
	})
}

// A new key is fetched when the first token signed with it arrives, and from then on costs no review.
func TestNewKeysAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		to := c.authenticator()
		authenticateAll(t, to, c.tokens(t, 60, oneAccount))
		c.signer = newRSASigner()
		c.keys = append(c.keys, c.signer)
		rotated := c.tokens(t, 60, oneAccount)
		time.Sleep(minListInterval)
		c.counts()
		if got := authenticateAll(t, to, rotated); got != 60 {
			t.Errorf("%d of 60 were let in", got)
		}
		if reviews, _ := c.counts(); reviews > directReviewBurst || c.fetches != 2 {
			t.Errorf("%d reviews, keys fetched %d times", reviews, c.fetches)
		}
	})
}

// A flood of tokens of deleted pods causes no more lists than allowed.
func TestPodsAreListedNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		tokens, to := c.tokens(t, 300, oneAccount), c.authenticator()
		authenticateAll(t, to, tokens[:1])
		for n := range 300 {
			c.deleted[fmt.Sprintf("uid-coder-%d", n)] = true
		}
		start := time.Now()
		for time.Since(start) < 20*time.Second {
			authenticateAll(t, to, tokens[1:])
			time.Sleep(time.Second)
		}
		if _, lists := c.counts(); lists > 5 {
			t.Errorf("%d lists in 20 s", lists)
		}
	})
}

// Strangers use up the reviews that they can cause. Agents have a separate budget.
func TestStrangersDoNotHoldUpAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		tokens, to := c.tokens(t, 60, oneAccount), c.authenticator()
		flood := make([]string, 0, 3*reviewBurst)
		for n := range 3 * reviewBurst {
			flood = append(flood, fmt.Sprintf("garbage-%d", n))
		}
		go authenticateAll(t, to, flood)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		if got := authenticateAll(t, to, tokens); got != 60 || time.Since(start) > time.Second {
			t.Errorf("%d of 60 were let in after %s", got, time.Since(start))
		}
		time.Sleep(time.Minute)
	})
}

func TestWaitsEndWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		c.delay = time.Minute
		tokens, to := c.tokens(t, 2, oneAccount), c.authenticator()
		go func() { _, _ = to.Authenticate(t.Context(), tokens[0]) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := to.Authenticate(ctx, tokens[1]); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		time.Sleep(time.Minute)
	})
}

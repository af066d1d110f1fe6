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

// A cluster issues tokens, and reviews them as an API server does.
type cluster struct {
	*server // publishes keys
	signer  signer

	mu       sync.Mutex
	issued   map[string]issue
	gone     map[string]bool // UIDs of pods and of service accounts
	reviews  int
	lists    int
	listErr  error
	unlisted map[string]bool // UIDs of pods that are not in the list yet
	slow     time.Duration   // delay of every answer
}

// An issue is the contents of a token.
type issue struct {
	identity Identity
	account  account
	expires  time.Time
}

func newCluster() *cluster {
	by := byCurve()
	return &cluster{server: newServer(by), signer: by, issued: map[string]issue{}, gone: map[string]bool{}, unlisted: map[string]bool{}, slow: time.Millisecond}
}

func (c *cluster) authenticator() *TokenAuthenticator {
	return NewTokenAuthenticator(TokenOptions{Reviews: c, Published: c.documents, Pods: c.listPods, ClockReliable: func() bool { return true }})
}

// token returns a token of pod number n, of a service account.
func (c *cluster) token(t testing.TB, n int, serviceAccount string) string {
	t.Helper()
	now := time.Now()
	name := fmt.Sprintf("coder-%d", n)
	said := issue{
		Identity{"ns", name, "uid-" + name}, account{"system:serviceaccount:ns:" + serviceAccount, "uid-" + serviceAccount}, now.Add(time.Hour),
	}
	token := c.signer.signs(t, map[string]any{
		"iss": issuer, "aud": []string{Audience}, "sub": said.account.username, "iat": now.Unix(), "nbf": now.Unix(), "exp": said.expires.Unix(), "jti": name,
		"kubernetes.io": map[string]any{
			"namespace": "ns", "pod": map[string]any{"name": name, "uid": said.identity.PodUID},
			"serviceaccount": map[string]any{"name": serviceAccount, "uid": said.account.uid},
		},
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued[token] = said
	return token
}

// Create implements TokenReviews.
func (c *cluster) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	time.Sleep(c.slow)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reviews++
	said, known := c.issued[review.Spec.Token]
	if !known || c.gone[said.identity.PodUID] || c.gone[said.account.uid] || time.Now().After(said.expires) {
		return &authenticationv1.TokenReview{}, nil
	}
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{Audience}, User: authenticationv1.UserInfo{
			Username: said.account.username, UID: said.account.uid,
			Extra: map[string]authenticationv1.ExtraValue{podNameClaim: {said.identity.Pod}, podUIDClaim: {said.identity.PodUID}},
		},
	}}, nil
}

func (c *cluster) listPods(context.Context) ([]Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	var pods []Identity
	for _, said := range c.issued {
		if !c.gone[said.identity.PodUID] && !c.unlisted[said.identity.PodUID] {
			pods = append(pods, said.identity)
		}
	}
	return pods, c.listErr
}

// counts returns the requests to the API server since the last call.
func (c *cluster) counts() (reviews, lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reviews, lists = c.reviews, c.lists
	c.reviews, c.lists = 0, 0
	return reviews, lists
}

// come has agents with these tokens connect at once, and counts the admitted ones.
func come(t *testing.T, to *TokenAuthenticator, tokens []string) (accepted int) {
	t.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, token := range tokens {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := to.Authenticate(ctx, token); err == nil {
				mu.Lock()
				defer mu.Unlock()
				accepted++
			}
		})
	}
	group.Wait()
	return accepted
}

func (c *cluster) tokens(t testing.TB, count int, serviceAccount func(n int) string) []string {
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
		c := newCluster()
		tokens := c.tokens(t, 2000, func(n int) string { return fmt.Sprintf("agents-%d", n%10) })
		began := time.Now()
		if got := come(t, c.authenticator(), tokens); got != 2000 {
			t.Errorf("%d of 2000 were let in", got)
		}
		reviews, lists := c.counts()
		if most := 10 + singlesAtOnce; reviews > most || lists != 1 || c.asked != 1 {
			t.Errorf("%d reviews, %d lists of pods, %d fetches of keys: want at most %d, 1 and 1", reviews, lists, c.asked, most)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the last one was let in after %s, though every answer takes 1 ms", took)
		}
	})
}

func TestFewAgentsAreReviewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		tokens := c.tokens(t, 10, oneAccount)
		if got := come(t, c.authenticator(), tokens); got != 10 {
			t.Errorf("%d of 10 were let in", got)
		}
		if reviews, lists := c.counts(); reviews != 10 || lists != 0 {
			t.Errorf("%d reviews, %d lists of pods: want 10 and 0", reviews, lists)
		}
	})
}

// Whatever was requested when, nothing that is deleted is admitted 10 s later.
func TestWhatIsDeletedIsLetInForTenSecondsAtMost(t *testing.T) {
	for _, deleted := range []string{"uid-coder-7", "uid-agents"} {
		for before := time.Duration(0); before < 12*time.Second; before += 1500 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				tokens := c.tokens(t, 30, oneAccount)
				to := c.authenticator()
				to.singles.SetBurst(0) // all go through the list
				come(t, to, tokens)
				time.Sleep(before)
				come(t, to, tokens)
				c.mu.Lock()
				c.gone[deleted] = true
				c.mu.Unlock()
				for range 9 {
					time.Sleep(time.Second)
					come(t, to, tokens[:7]) // others renew the cached answers
					come(t, to, tokens[8:])
				}
				time.Sleep(time.Second)
				if _, err := to.Authenticate(t.Context(), tokens[7]); !errors.Is(err, ErrDenied) {
					t.Errorf("%s deleted %s after the agents came: let in 10 s later (%v)", deleted, before, err)
				}
			})
		}
	}
}

// The API server reviews tokens that cannot be verified here: an agent is never locked out by what this process does not know.
func TestWhatCannotBeVerifiedIsReviewed(t *testing.T) {
	for reason, spoil := range map[string]func(c *cluster, to *TokenAuthenticator){
		"the keys cannot be read":     func(c *cluster, _ *TokenAuthenticator) { c.down = errors.New("forbidden") },
		"the keys are others":         func(c *cluster, _ *TokenAuthenticator) { c.keys = []signer{byRSA()} },
		"another issuer is published": func(c *cluster, _ *TokenAuthenticator) { c.issuer = "https://elsewhere.example.test" },
		"the pods cannot be listed":   func(c *cluster, _ *TokenAuthenticator) { c.listErr = errors.New("forbidden") },
		"the clock is wrong":          func(_ *cluster, to *TokenAuthenticator) { to.options.ClockReliable = func() bool { return false } },
		"the pods are new": func(c *cluster, _ *TokenAuthenticator) {
			for _, said := range c.issued {
				c.unlisted[said.identity.PodUID] = true
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			tokens, to := c.tokens(t, 100, oneAccount), c.authenticator()
			spoil(c, to)
			if got := come(t, to, tokens); got != 100 {
				t.Errorf("%s: %d of 100 were let in", reason, got)
			}
			if reviews, _ := c.counts(); reviews != 100 {
				t.Errorf("%s: %d reviews, want 100", reason, reviews)
			}
		})
	}
}

func TestWhatTheAPIServerDeniesIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		tokens, to := c.tokens(t, 60, oneAccount), c.authenticator()
		come(t, to, tokens)
		c.counts()
		forged := c.tokens(t, 1, oneAccount)[0]
		forged = forged[:len(forged)-8] + "AAAAAAAA"
		stranger := newCluster()
		stranger.signer = signer{c.signer.id, c.signer.algorithm, newCurveKey()}
		for reason, token := range map[string]string{
			"forged": forged, "no token": "garbage", "empty": "", "another cluster's": stranger.token(t, 1, "agents"),
		} {
			if _, err := to.Authenticate(t.Context(), token); !errors.Is(err, ErrDenied) {
				t.Errorf("%s: %v", reason, err)
			}
		}
		time.Sleep(time.Hour + skew)
		if got := come(t, to, tokens); got != 0 {
			t.Errorf("%d tokens were accepted after they had expired", got)
		}
	})
}

// A new key is fetched when the first token signed with it arrives, and from then on costs no review.
func TestNewKeysAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		to := c.authenticator()
		come(t, to, c.tokens(t, 60, oneAccount))
		c.signer = byRSA()
		c.keys = append(c.keys, c.signer)
		rotated := c.tokens(t, 60, oneAccount)
		time.Sleep(listEvery)
		c.counts()
		if got := come(t, to, rotated); got != 60 {
			t.Errorf("%d of 60 were let in", got)
		}
		if reviews, _ := c.counts(); reviews > singlesAtOnce || c.asked != 2 {
			t.Errorf("%d reviews, keys fetched %d times", reviews, c.asked)
		}
	})
}

// A flood of tokens of deleted pods causes no more lists than allowed.
func TestPodsAreListedNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		tokens, to := c.tokens(t, 300, oneAccount), c.authenticator()
		come(t, to, tokens[:1])
		for n := range 300 {
			c.gone[fmt.Sprintf("uid-coder-%d", n)] = true
		}
		began := time.Now()
		for time.Since(began) < 20*time.Second {
			come(t, to, tokens[1:])
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
		c := newCluster()
		tokens, to := c.tokens(t, 60, oneAccount), c.authenticator()
		flood := make([]string, 0, 3*reviewsAtOnce)
		for n := range 3 * reviewsAtOnce {
			flood = append(flood, fmt.Sprintf("garbage-%d", n))
		}
		go come(t, to, flood)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		if got := come(t, to, tokens); got != 60 || time.Since(began) > time.Second {
			t.Errorf("%d of 60 were let in after %s", got, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

func TestWaitsEndWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.slow = time.Minute
		tokens, to := c.tokens(t, 2, oneAccount), c.authenticator()
		go func() { _, _ = to.Authenticate(t.Context(), tokens[0]) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := to.Authenticate(ctx, tokens[1]); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

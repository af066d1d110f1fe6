package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/peer"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// contextFrom returns the context of a stream from an address.
func contextFrom(ctx context.Context, source string) context.Context {
	return peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(source), Port: 1}})
}

// forgery has the claims of an agent's token, and was never issued.
func (c *fakeCluster) forgery(t testing.TB, n int) string {
	t.Helper()
	return c.signer.sign(t, podClaims(fmt.Sprintf("forged-%d", n)))
}

// floodTokens presents forged tokens from an address, each as soon as the previous one was refused, and with a new ID.
func floodTokens(ctx context.Context, authenticator *TokenAuthenticator, source string, tokens <-chan string) {
	for range 64 { // what a source may have open
		go func() {
			for ctx.Err() == nil {
				callCtx, cancel := context.WithTimeout(contextFrom(ctx, source), 10*time.Second)
				select {
				case token := <-tokens:
					_, _ = authenticator.Authenticate(callCtx, token)
				case <-ctx.Done():
				}
				cancel()
			}
		}()
	}
}

// After a change of leader 100 agents reconnect while four pods present forged tokens. The keys cannot be read, which is the
// worst case: everything is reviewed. All agents are admitted before a lease could end; without fair turns the flood would
// have used up the reviews.
func TestForgedTokensDoNotHoldUpAgents(t *testing.T) {
	const bound = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		tokens, to := c.tokens(t, 100, oneAccount), c.authenticator()
		forgeries := make([]string, 3000)
		for n := range forgeries {
			forgeries[n] = c.forgery(t, n)
		}
		c.fetchErr = errors.New("the API server does not publish its keys")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		shown := make(chan string)
		go func() {
			for n := 0; ; n++ {
				select {
				case shown <- forgeries[n%len(forgeries)]: // denials are forgotten before a token is presented again
				case <-ctx.Done():
					return
				}
			}
		}()
		for n := range 4 {
			floodTokens(ctx, to, fmt.Sprintf("10.1.0.%d", n+1), shown)
		}
		time.Sleep(15 * time.Second) // the budget is used up
		c.counts()
		slowest := authenticateAllFrom(t, to, tokens, func(n int) string { return fmt.Sprintf("10.2.0.%d", 1+n%10) })
		if slowest > bound {
			t.Errorf("the last agent was let in after %s, want %s at most", slowest, bound)
		}
		if reviews, _ := c.counts(); float64(reviews) > reviewBurst+reviewsPerSecond*slowest.Seconds()+1 {
			t.Errorf("%d reviews in %s", reviews, slowest)
		}
		cancel()
		synctest.Wait()
	})
}

// authenticateAllFrom has agents connect at once, and returns how long the last of them waited.
func authenticateAllFrom(t *testing.T, to *TokenAuthenticator, tokens []string, source func(n int) string) (slowest time.Duration) {
	t.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for n, token := range tokens {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(contextFrom(t.Context(), source(n)), 10*time.Second)
			defer cancel()
			_, err := to.Authenticate(ctx, token)
			mu.Lock()
			defer mu.Unlock()
			if slowest = max(slowest, time.Since(start)); err != nil {
				t.Errorf("agent %d was refused: %v", n, err)
			}
		})
	}
	group.Wait()
	return slowest
}

// A tenant can have any number of valid tokens, of pods that are in no list. It uses up the reviews of its own namespace.
func TestNamespacesDoNotHoldUpEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := newReviewLimiter()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 10 * reviewBurst {
			go func() { _ = budget.Wait(ctx, "greedy") }()
		}
		synctest.Wait()
		start := time.Now()
		for range reviewBurst * (100 - reviewSharePercent) / 100 {
			if err := budget.Wait(ctx, "other"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("the share of another namespace took %s", took)
		}
		c := newFakeCluster()
		said := tokenClaims{}
		said.Kubernetes.Namespace = "ns"
		if turn := c.authenticator().reviewQuotaFor(said); turn.flow != "ns" {
			t.Errorf("reviewed in turn of %q", turn.flow)
		}
	})
}

// The claims of a token may rule it out. That costs the API server nothing.
func TestTokensThatNoReviewAcceptsAreNotReviewed(t *testing.T) {
	for reason, corrupt := range map[string]func(claims map[string]any){
		"another audience":      func(claims map[string]any) { claims["aud"] = []string{"kubernetes"} },
		"no audience":           func(claims map[string]any) { delete(claims, "aud") },
		"expired":               func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Minute).Unix() },
		"never expires":         func(claims map[string]any) { delete(claims, "exp") },
		"no pod":                func(claims map[string]any) { delete(claims["kubernetes.io"].(map[string]any), "pod") },
		"no namespace":          func(claims map[string]any) { delete(claims["kubernetes.io"].(map[string]any), "namespace") },
		"nothing of Kubernetes": func(claims map[string]any) { delete(claims, "kubernetes.io") },
		"another's namespace": func(claims map[string]any) {
			claims["kubernetes.io"].(map[string]any)["namespace"], claims["sub"] = "elsewhere", "system:serviceaccount:elsewhere:agents"
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newFakeCluster()
			c.fetchErr = errors.New("the API server does not publish its keys")
			to := c.authenticator()
			to.options.InScope = func(_ context.Context, namespace string) bool { return namespace == "ns" }
			claims := podClaims("coder-1")
			whole := c.signer.sign(t, claims)
			if _, err := to.Authenticate(t.Context(), whole); !errors.Is(err, ErrDenied) {
				t.Errorf("%s: a token that the API server does not know: %v", reason, err)
			}
			if reviews, _ := c.counts(); reviews != 1 {
				t.Errorf("%s: %d reviews of a token that looks good", reason, reviews)
			}
			corrupt(claims)
			if _, err := to.Authenticate(t.Context(), c.signer.sign(t, claims)); !errors.Is(err, ErrDenied) {
				t.Errorf("%s: %v", reason, err)
			}
			if reviews, _ := c.counts(); reviews != 0 {
				t.Errorf("%s: %d reviews", reason, reviews)
			}
		})
	}
}

// podClaims are the claims in the token of a pod.
func podClaims(name string) map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": issuer, "aud": []string{Audience}, "sub": "system:serviceaccount:ns:agents", "jti": name,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": "ns", "pod": map[string]any{"name": name, "uid": "uid-" + name},
			"serviceaccount": map[string]any{"name": "agents", "uid": "uid-agents"},
		},
	}
}

// While its clock is wrong, this process does not judge expiry by it.
func TestExpiryIsLeftToTheAPIServerWhileTheClockIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		to := c.authenticator()
		to.options.IsClockReliable = func() bool { return false }
		said := podClaims("coder-1")
		said["exp"] = time.Now().Add(-time.Hour).Unix()
		_, _ = to.Authenticate(t.Context(), c.signer.sign(t, said))
		if reviews, _ := c.counts(); reviews != 1 {
			t.Errorf("%d reviews, want 1", reviews)
		}
	})
}

func TestReviewsThatCannotBeMadeInTimeAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := NewTokenReviewer(&fakeReviewer{})
	r.refusals, r.limiter = limit.NewRefusals(registry), limit.NewFairLimiter(limit.Budget{PerSecond: 0, Burst: 1, Share: 100})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = r.limiter.Wait(ctx, "")
	if _, err := r.Authenticate(ctx, "a token"); errors.Is(err, ErrDenied) || err == nil {
		t.Errorf("got %v", err)
	}
	if got := counterValue(t, registry, "tokenReviews"); got != 1 {
		t.Errorf("%v counted", got)
	}
}

func counterValue(t *testing.T, registry *prometheus.Registry, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range families[0].GetMetric() {
		if series.GetLabel()[0].GetValue() == label {
			return series.GetCounter().GetValue()
		}
	}
	return -1
}

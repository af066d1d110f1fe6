package link

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

const (
	// Audience is the audience of agents' tokens, so that no other token of the pod opens the link.
	Audience = "swarm.io"

	podNameClaim         = "authentication.kubernetes.io/pod-name"
	podUIDClaim          = "authentication.kubernetes.io/pod-uid"
	serviceAccountPrefix = "system:serviceaccount:"

	// A real token has about 1 KiB; anything far above is not worth the API server's time.
	maxTokenBytes = 8 << 10

	// How many reviews agents can cause: a swarm of a thousand may start at once, a flood gets no further. No flow gets more
	// than this share, in percent.
	reviewsPerSecond, reviewBurst, reviewSharePercent = 100, 1000, 50
)

// newReviewLimiter returns a budget of reviews that is fair between flows.
func newReviewLimiter() *limit.FairLimiter {
	return limit.NewFairLimiter(limit.Budget{PerSecond: reviewsPerSecond, Burst: reviewBurst, Share: reviewSharePercent})
}

// A reviewQuota is the budget that a review is charged to, and the flow.
type reviewQuota struct {
	limiter *limit.FairLimiter
	flow    string
}

// TokenReviewClient is the part of client-go that creates token reviews.
type TokenReviewClient interface {
	Create(ctx context.Context, review *authenticationv1.TokenReview, options metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// A TokenReviewer has the API server check tokens: signature, expiry, audience, and that the pod they are bound to exists
// with the same UID. Answers are remembered for a few seconds, so that an agent that reconnects costs nothing and a deleted
// pod soon loses its access.
type TokenReviewer struct {
	reviews           TokenReviewClient
	cache             *tokenCache
	limiter           *limit.FairLimiter                      // for tokens about which nothing is known, fair between source addresses
	onAccountReviewed func(known accountKey, asked time.Time) // called with the service accounts of valid tokens

	refusals *limit.Refusals
}

// NewTokenReviewer returns an Authenticator that uses the client.
func NewTokenReviewer(reviews TokenReviewClient) *TokenReviewer {
	return &TokenReviewer{
		reviews:           reviews,
		cache:             newTokenCache(time.Now),
		limiter:           newReviewLimiter(),
		onAccountReviewed: func(accountKey, time.Time) {},
	}
}

// Authenticate implements Authenticator.
func (r *TokenReviewer) Authenticate(ctx context.Context, token string) (Identity, error) {
	return r.review(ctx, token, reviewQuota{r.limiter, sourceFromContext(ctx)})
}

// review has a token checked when its turn comes.
func (r *TokenReviewer) review(ctx context.Context, token string, quota reviewQuota) (Identity, error) {
	if token == "" || len(token) > maxTokenBytes {
		return Identity{}, fmt.Errorf("%w: its length is not a token's", ErrDenied)
	}
	key := sha256.Sum256([]byte(token)) // the token itself is not kept in memory
	if cached, found := r.cache.get(key); found {
		return cached.identity, cached.err
	}
	if err := quota.limiter.Wait(ctx, quota.flow); err != nil {
		r.refusals.Count(limit.TokenReviews)
		return Identity{}, fmt.Errorf("review token: too many at once: %w", err)
	}
	requestedAt := r.cache.now()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}}}
	reviewed, err := r.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return Identity{}, fmt.Errorf("review token: %w", err)
	}
	identity, err := identityFromReview(reviewed.Status)
	r.cache.put(key, cachedReview{identity: identity, err: err})
	if err == nil {
		r.onAccountReviewed(accountKey{reviewed.Status.User.Username, reviewed.Status.User.UID}, requestedAt)
	}
	return identity, err
}

// identityFromReview reads a review. All of its errors are final.
func identityFromReview(reviewed authenticationv1.TokenReviewStatus) (Identity, error) {
	if !reviewed.Authenticated {
		return Identity{}, fmt.Errorf("%w: the API server does not accept it (expired, forged, revoked, or for another audience than %s)",
			ErrDenied, Audience)
	}
	// An API server that knows no audiences leaves this empty and has checked nothing.
	if !slices.Contains(reviewed.Audiences, Audience) {
		return Identity{}, fmt.Errorf("%w: it is not for audience %s", ErrDenied, Audience)
	}
	account, isAccount := strings.CutPrefix(reviewed.User.Username, serviceAccountPrefix)
	namespace, _, _ := strings.Cut(account, ":")
	identity := Identity{Namespace: namespace, Pod: extraValue(reviewed.User, podNameClaim), PodUID: extraValue(reviewed.User, podUIDClaim)}
	if !isAccount || identity.Namespace == "" || identity.Pod == "" || identity.PodUID == "" {
		return Identity{}, fmt.Errorf("%w: it is not bound to a pod", ErrDenied)
	}
	return identity, nil
}

func extraValue(user authenticationv1.UserInfo, name string) string {
	if values := user.Extra[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

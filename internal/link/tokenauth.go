package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// Reviews of single tokens before the pods of all agents are listed: an agent that restarts costs a review, not a list of ten
// thousand pods.
const directReviewsPerSecond, directReviewBurst = 2, 20

// A TokenAuthenticator authenticates agents at a cost that does not grow with their number, so that all of them can connect at once
// after a change of leader. It verifies a token by the keys that the cluster publishes, and finds its pod in a list of all agent pods
// that is at most 10 s old. The API server vouches for the service account: a review of any token of that account, at most 10 s ago.
// Together these are what a review of the token itself would have checked.
//
// It only ever accepts tokens in this way. Tokens that it cannot accept are reviewed, unless their own claims rule them out: tokens of
// new pods, of unpublished keys or issuers, and all tokens while the keys or the pods cannot be read, or while the clock of this
// process is wrong.
type TokenAuthenticator struct {
	reviewer           *TokenReviewer
	keys               *keyCache
	podCache           *podCache
	accountCache       *accountCache
	directReviews      *rate.Limiter
	signedTokenReviews *limit.FairLimiter // reviews of tokens that the cluster has signed, fair between namespaces
	options            TokenOptions
}

// TokenOptions configure a TokenAuthenticator. All fields but InScope and Refusals must be set.
type TokenOptions struct {
	Reviews   TokenReviewClient
	Documents DocumentReader
	Pods      PodLister
	// IsClockReliable reports whether this process's clock is good enough to judge expiry.
	IsClockReliable func() bool
	// InScope reports whether a namespace can have agents. It must not wait. Defaults to all namespaces.
	InScope  func(ctx context.Context, namespace string) bool
	Refusals *limit.Refusals // counts reviews that would have had to wait too long
}

// NewTokenAuthenticator returns an Authenticator.
func NewTokenAuthenticator(options TokenOptions) *TokenAuthenticator {
	authenticator := &TokenAuthenticator{
		reviewer: NewTokenReviewer(options.Reviews), keys: newKeyCache(options.Documents, time.Now),
		podCache: newPodCache(options.Pods, time.Now), accountCache: newAccountCache(time.Now),
		directReviews: rate.NewLimiter(directReviewsPerSecond, directReviewBurst), signedTokenReviews: newReviewLimiter(), options: options,
	}
	authenticator.reviewer.refusals = options.Refusals
	authenticator.reviewer.onAccountReviewed = authenticator.accountCache.markValid
	return authenticator
}

// Prepare fetches the keys. Without them every token is reviewed, which takes long when many agents connect at once.
func (a *TokenAuthenticator) Prepare(ctx context.Context) error {
	_, err := a.keys.current(ctx)
	return err
}

// Authenticate implements Authenticator.
func (a *TokenAuthenticator) Authenticate(ctx context.Context, token string) (Identity, error) {
	clockReliable := a.options.IsClockReliable()
	if err := a.precheck(ctx, token, clockReliable); err != nil {
		return Identity{}, err
	}
	if !clockReliable {
		return a.reviewer.Authenticate(ctx, token)
	}
	claims, err := a.keys.verify(ctx, token, time.Now())
	if err != nil {
		return a.reviewer.Authenticate(ctx, token)
	}
	reviewed, identity, err := a.ensureAccount(ctx, claims, token)
	if reviewed || err != nil {
		return identity, err
	}
	if a.isPodListed(ctx, claims.identity()) {
		return claims.identity(), nil
	}
	return a.reviewer.review(ctx, token, a.reviewQuotaFor(claims))
}

func (a *TokenAuthenticator) reviewQuotaFor(claims tokenClaims) reviewQuota {
	return reviewQuota{a.signedTokenReviews, claims.Kubernetes.Namespace}
}

// precheck refuses tokens that no review would accept, and tokens of namespaces without agents. Claims are not proven here, so
// nothing is accepted because of them.
func (a *TokenAuthenticator) precheck(ctx context.Context, token string, clockReliable bool) error {
	claims, err := parseUnverified(token)
	if err != nil {
		return err
	}
	if !slices.Contains(claims.Audience, Audience) {
		return fmt.Errorf("%w: it is not for audience %s", ErrDenied, Audience)
	}
	if err := claims.checkBinding(); err != nil {
		return err
	}
	if claims.Expiry == nil || clockReliable && time.Now().After(claims.Expiry.Time().Add(maxClockSkew)) {
		return fmt.Errorf("%w: it has expired, or never does", ErrDenied)
	}
	if namespace := claims.Kubernetes.Namespace; a.options.InScope != nil && !a.options.InScope(ctx, namespace) {
		return fmt.Errorf("%w: namespace %q is not this operator's", ErrDenied, namespace)
	}
	return nil
}

// ensureAccount returns when the API server has vouched for the service account. If no recent review has done so, this token
// is reviewed, and the answer is for it alone. Concurrent callers wait for that one review.
func (a *TokenAuthenticator) ensureAccount(ctx context.Context, claims tokenClaims, token string) (reviewed bool, identity Identity,
	err error) {
	key := claims.accountKey()
	if a.accountCache.isValid(key) {
		return false, Identity{}, nil
	}
	release, err := a.accountCache.acquire(ctx, key)
	if err != nil {
		return false, Identity{}, err
	}
	defer release()
	if a.accountCache.isValid(key) {
		return false, Identity{}, nil
	}
	identity, err = a.reviewer.review(ctx, token, a.reviewQuotaFor(claims))
	return true, identity, err
}

// isPodListed looks a pod up. The list is renewed only if more tokens arrive than are reviewed one by one.
func (a *TokenAuthenticator) isPodListed(ctx context.Context, identity Identity) bool {
	if a.podCache.contains(identity) {
		return true
	}
	if a.directReviews.Allow() {
		return false
	}
	return a.podCache.refresh(ctx) == nil && a.podCache.contains(identity)
}

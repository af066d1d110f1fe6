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
const singlesPerSecond, singlesAtOnce = 2, 20

// A TokenAuthenticator authenticates agents at a cost that does not grow with their number, so that all of them can connect at once
// after a change of leader. It verifies a token by the keys that the cluster publishes, and finds its pod in a list of all agent pods
// that is at most 10 s old. The API server vouches for the service account: a review of any token of that account, at most 10 s ago.
// Together these are what a review of the token itself would have checked.
//
// It only ever accepts tokens in this way. Tokens that it cannot accept are reviewed, unless their own claims rule them out: tokens of
// new pods, of unpublished keys or issuers, and all tokens while the keys or the pods cannot be read, or while the clock of this
// process is wrong.
type TokenAuthenticator struct {
	reviewer *TokenReviewer
	keys     *keyring
	roster   *roster
	accounts *accounts
	singles  *rate.Limiter
	verified *limit.FairLimiter // reviews of tokens that the cluster has signed, fair between namespaces: strangers do not delay them
	options  TokenOptions
}

// TokenOptions configure a TokenAuthenticator. All fields but InScope and Refusals must be set.
type TokenOptions struct {
	Reviews   TokenReviews
	Published Documents
	Pods      Pods
	// ClockReliable reports whether this process's clock is good enough to judge expiry.
	ClockReliable func() bool
	// InScope reports whether a namespace can have agents. It must not wait. Defaults to all namespaces.
	InScope  func(ctx context.Context, namespace string) bool
	Refusals *limit.Refusals // counts reviews that would have had to wait too long
}

// NewTokenAuthenticator returns an Authenticator.
func NewTokenAuthenticator(options TokenOptions) *TokenAuthenticator {
	made := &TokenAuthenticator{
		reviewer: NewTokenReviewer(options.Reviews), keys: newKeyring(options.Published, time.Now),
		roster: newRoster(options.Pods, time.Now), accounts: newAccounts(time.Now),
		singles: rate.NewLimiter(singlesPerSecond, singlesAtOnce), verified: newReviewBudget(), options: options,
	}
	made.reviewer.refusals = options.Refusals
	made.reviewer.vouched = made.accounts.vouch
	return made
}

// Prepare fetches the keys. Without them every token is reviewed, which takes long when many agents connect at once.
func (a *TokenAuthenticator) Prepare(ctx context.Context) error {
	_, err := a.keys.current(ctx)
	return err
}

// Authenticate implements Authenticator.
func (a *TokenAuthenticator) Authenticate(ctx context.Context, token string) (Identity, error) {
	reliable := a.options.ClockReliable()
	if err := a.presume(ctx, token, reliable); err != nil {
		return Identity{}, err
	}
	if !reliable {
		return a.reviewer.Authenticate(ctx, token)
	}
	verified, err := a.keys.read(ctx, token, time.Now())
	if err != nil {
		return a.reviewer.Authenticate(ctx, token)
	}
	reviewed, identity, err := a.awaitAccount(ctx, verified, token)
	if reviewed || err != nil {
		return identity, err
	}
	if a.isListed(ctx, verified.identity()) {
		return verified.identity(), nil
	}
	return a.reviewer.review(ctx, token, a.turnOf(verified))
}

func (a *TokenAuthenticator) turnOf(verified claims) reviewTurn {
	return reviewTurn{a.verified, verified.Kubernetes.Namespace}
}

// presume refuses tokens that no review would accept, and tokens of namespaces without agents. Claims are not proven here, so
// nothing is accepted because of them.
func (a *TokenAuthenticator) presume(ctx context.Context, token string, clockReliable bool) error {
	said, err := unverified(token)
	if err != nil {
		return err
	}
	if !slices.Contains(said.Audience, Audience) {
		return fmt.Errorf("%w: it is not for audience %s", ErrDenied, Audience)
	}
	if err := said.checkBinding(); err != nil {
		return err
	}
	if said.Expiry == nil || clockReliable && time.Now().After(said.Expiry.Time().Add(skew)) {
		return fmt.Errorf("%w: it has expired, or never does", ErrDenied)
	}
	if namespace := said.Kubernetes.Namespace; a.options.InScope != nil && !a.options.InScope(ctx, namespace) {
		return fmt.Errorf("%w: namespace %q is not this operator's", ErrDenied, namespace)
	}
	return nil
}

// awaitAccount returns when the API server has vouched for the service account. If no recent review has done so, this token
// is reviewed, and the answer is for it alone. Concurrent callers wait for that one review.
func (a *TokenAuthenticator) awaitAccount(ctx context.Context, verified claims, token string) (reviewed bool, identity Identity, err error) {
	known := verified.account()
	if a.accounts.vouched(known) {
		return false, Identity{}, nil
	}
	release, err := a.accounts.acquire(ctx, known)
	if err != nil {
		return false, Identity{}, err
	}
	defer release()
	if a.accounts.vouched(known) {
		return false, Identity{}, nil
	}
	identity, err = a.reviewer.review(ctx, token, a.turnOf(verified))
	return true, identity, err
}

// isListed looks a pod up. The list is renewed only if more tokens arrive than are reviewed one by one.
func (a *TokenAuthenticator) isListed(ctx context.Context, identity Identity) bool {
	if a.roster.holds(identity) {
		return true
	}
	if a.singles.Allow() {
		return false
	}
	return a.roster.renew(ctx) == nil && a.roster.holds(identity)
}

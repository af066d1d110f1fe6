package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
)

const (
	// A real token has about 1 KiB; anything far longer is rejected without a review.
	maxTokenBytes = 8 << 10
	// maxConcurrentReviews limits concurrent reviews of all callers.
	maxConcurrentReviews = 8
	// How many reviews callers can cause per second and in a burst, and the percentage that one address can use up. An authorized caller
	// causes two reviews every 10 s.
	reviewsPerSecond, reviewBurst, reviewShare = 20, 100, 50
	// reviewTimeout is how long a request waits until a review can be made for it.
	reviewTimeout = 2 * time.Second
)

// An Authorizer asks the API server about callers.
type Authorizer interface {
	// Authenticate returns whose token it is, if it is valid.
	Authenticate(ctx context.Context, token string) (caller authenticationv1.UserInfo, known bool, err error)
	// Authorize reports whether the caller with this token has the wanted right.
	Authorize(ctx context.Context, token string, caller authenticationv1.UserInfo, wanted Attributes) (bool, error)
}

// Attributes is one of the two kinds of rights, in the types of the API server's reviews.
type Attributes struct {
	Resource *authorizationv1.ResourceAttributes
	Path     *authorizationv1.NonResourceAttributes
}

// A permission is what a request needs. Without a namespace, it applies to all of them. A resource that begins with a slash is a path, as
// for `kubectl auth can-i`.
type permission struct{ verb, resource, namespace, name string }

func (r permission) isPath() bool { return strings.HasPrefix(r.resource, "/") }

func (r permission) attributes() Attributes {
	if r.isPath() {
		return Attributes{Path: &authorizationv1.NonResourceAttributes{Verb: r.verb, Path: r.resource}}
	}
	return Attributes{Resource: &authorizationv1.ResourceAttributes{
		Verb: r.verb, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: r.resource, Namespace: r.namespace, Name: r.name,
	}}
}

// deniedError says which right is missing, in the words of kubectl.
func (r permission) deniedError(caller string) error {
	if r.isPath() {
		return problemf(http.StatusForbidden, "forbidden: User %q cannot %s path %q", caller, r.verb, r.resource)
	}
	object := r.resource + "." + v1alpha1.GroupVersion.Group
	if r.name != "" {
		object += fmt.Sprintf(" %q", r.name)
	}
	where := "at the cluster scope"
	if r.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", r.namespace)
	}
	return problemf(http.StatusForbidden, "%s is forbidden: User %q cannot %s resource %q in API group %q %s",
		object, caller, r.verb, r.resource, v1alpha1.GroupVersion.Group, where)
}

// A semaphore limits concurrency. The others wait, for as long as their requests may.
type semaphore chan struct{}

func (t semaphore) run(ctx context.Context, work func() error) error {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
		return work()
	case <-ctx.Done():
		return problemf(http.StatusServiceUnavailable, "too many requests at once: try again")
	}
}

// An authFilter admits callers that the API server authenticates and authorizes. Positive answers are cached longer than negative ones, and
// separately: new rights take effect within two seconds, and a flood of bad tokens evicts no positive answer.
type authFilter struct {
	authorizer   Authorizer
	reviewSlots  semaphore
	budget       *limit.FairLimiter // of reviews, shared fairly between the addresses of callers
	callerCache  *authCache[authenticationv1.UserInfo]
	allowedCache *authCache[struct{}]
	refusedCache *authCache[error]
	refusals     *limit.Refusals
}

func newAuthFilter(authorizer Authorizer, refusals *limit.Refusals) *authFilter {
	return &authFilter{
		authorizer: authorizer, reviewSlots: make(semaphore, maxConcurrentReviews), refusals: refusals,
		budget:      limit.NewFairLimiter(limit.Budget{PerSecond: reviewsPerSecond, Burst: reviewBurst, Share: reviewShare}),
		callerCache: newAuthCache[authenticationv1.UserInfo](positiveTTL), allowedCache: newAuthCache[struct{}](positiveTTL),
		refusedCache: newAuthCache[error](negativeTTL),
	}
}

// A credential is what a request presents, and where it comes from.
type credential struct{ token, source string }

func readCredential(request *http.Request) credential {
	return credential{token: bearerToken(request), source: limit.SourceOf(request.RemoteAddr)}
}

// review asks the API server, in turn.
func (g *authFilter) review(ctx context.Context, source string, call func() error) error {
	waitCtx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if err := g.budget.Wait(waitCtx, source); err != nil {
		g.refusals.Count(limit.TokenReviews)
		return problemf(http.StatusTooManyRequests, "too many tokens have to be reviewed: try again later")
	}
	return g.reviewSlots.run(ctx, call)
}

// bearerToken returns the token of a request, "" for none.
func bearerToken(request *http.Request) string {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// check returns why the bearer of a token may not have what it asks for.
func (g *authFilter) check(ctx context.Context, cred credential, needed permission) error {
	if cred.token == "" || len(cred.token) > maxTokenBytes {
		return problemf(http.StatusUnauthorized, "this path needs a header `Authorization: Bearer <token>`: kubectl create token makes one")
	}
	caller, err := g.identify(ctx, cred)
	if err != nil {
		return err
	}
	key := newCacheKey(cred.token, needed.verb, needed.resource, needed.namespace, needed.name)
	if _, found := g.allowedCache.get(key); found {
		return nil
	}
	if cachedErr, found := g.refusedCache.get(key); found {
		return cachedErr
	}
	return g.authorize(ctx, cred, caller, needed, key)
}

// identify returns whose token it is.
func (g *authFilter) identify(ctx context.Context, cred credential) (authenticationv1.UserInfo, error) {
	key := newCacheKey(cred.token)
	if caller, valid := g.callerCache.get(key); valid {
		return caller, nil
	}
	if cachedErr, valid := g.refusedCache.get(key); valid {
		return authenticationv1.UserInfo{}, cachedErr
	}
	var caller authenticationv1.UserInfo
	valid := false
	err := g.review(ctx, cred.source, func() (err error) {
		if caller, valid, err = g.authorizer.Authenticate(ctx, cred.token); err != nil {
			return problemf(http.StatusServiceUnavailable, "review token: %v", err)
		}
		return nil
	})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	if !valid {
		err := problemf(http.StatusUnauthorized,
			"the API server does not accept the token: it is expired, forged, revoked, or issued for another audience")
		g.refusedCache.add(key, err)
		return authenticationv1.UserInfo{}, err
	}
	g.callerCache.add(key, caller)
	return caller, nil
}

// authorize asks whether a caller has a right, and caches the answer under the key.
func (g *authFilter) authorize(ctx context.Context, cred credential, caller authenticationv1.UserInfo, needed permission,
	key cacheKey) error {
	allowed := false
	err := g.review(ctx, cred.source, func() (err error) {
		if allowed, err = g.authorizer.Authorize(ctx, cred.token, caller, needed.attributes()); err != nil {
			return problemf(http.StatusServiceUnavailable, "review access: %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !allowed {
		denied := needed.deniedError(caller.Username)
		g.refusedCache.add(key, denied)
		return denied
	}
	g.allowedCache.add(key, struct{}{})
	return nil
}

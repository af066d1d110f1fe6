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
	longestToken = 8 << 10
	// mostReviews limits concurrent reviews of all callers.
	mostReviews = 8
	// How many reviews callers can cause per second and in a burst, and the percentage that one address can use up. An authorized caller
	// causes two reviews every 10 s.
	reviewsPerSecond, reviewsAtOnce, reviewShare = 20, 100, 50
	// longestTurn is how long a request waits until a review can be made for it.
	longestTurn = 2 * time.Second
)

// A Judge asks the API server about callers.
type Judge interface {
	// Identify returns whose token it is, if it is valid.
	Identify(ctx context.Context, token string) (caller authenticationv1.UserInfo, known bool, err error)
	// Allows reports whether the caller with this token has the wanted right.
	Allows(ctx context.Context, token string, caller authenticationv1.UserInfo, wanted Wanted) (bool, error)
}

// Wanted is one of the two kinds of rights, in the types of the API server's reviews.
type Wanted struct {
	Resource *authorizationv1.ResourceAttributes
	Path     *authorizationv1.NonResourceAttributes
}

// A right is what a request needs. Without a namespace, it applies to all of them. A resource that begins with a slash is a path, as
// for `kubectl auth can-i`.
type right struct{ verb, resource, namespace, name string }

func (r right) isPath() bool { return strings.HasPrefix(r.resource, "/") }

func (r right) wanted() Wanted {
	if r.isPath() {
		return Wanted{Path: &authorizationv1.NonResourceAttributes{Verb: r.verb, Path: r.resource}}
	}
	return Wanted{Resource: &authorizationv1.ResourceAttributes{
		Verb: r.verb, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: r.resource, Namespace: r.namespace, Name: r.name,
	}}
}

// denied says which right is missing, in the words of kubectl.
func (r right) denied(caller string) error {
	if r.isPath() {
		return refuse(http.StatusForbidden, "forbidden: User %q cannot %s path %q", caller, r.verb, r.resource)
	}
	object := r.resource + "." + v1alpha1.GroupVersion.Group
	if r.name != "" {
		object += fmt.Sprintf(" %q", r.name)
	}
	where := "at the cluster scope"
	if r.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", r.namespace)
	}
	return refuse(http.StatusForbidden, "%s is forbidden: User %q cannot %s resource %q in API group %q %s",
		object, caller, r.verb, r.resource, v1alpha1.GroupVersion.Group, where)
}

// A turnstile limits concurrency. The others wait, for as long as their requests may.
type turnstile chan struct{}

func (t turnstile) pass(ctx context.Context, work func() error) error {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
		return work()
	case <-ctx.Done():
		return refuse(http.StatusServiceUnavailable, "too many requests at once: try again")
	}
}

// A guard admits callers that the API server authenticates and authorizes. Positive answers are cached longer than negative ones, and
// separately: new rights take effect within two seconds, and a flood of bad tokens evicts no positive answer.
type guard struct {
	judge    Judge
	reviews  turnstile
	budget   *limit.FairLimiter // of reviews, shared fairly between the addresses of callers
	callers  *memory[authenticationv1.UserInfo]
	allowed  *memory[struct{}]
	refused  *memory[error]
	refusals *limit.Refusals
}

func newGuard(judge Judge, refusals *limit.Refusals) *guard {
	return &guard{
		judge: judge, reviews: make(turnstile, mostReviews), refusals: refusals,
		budget:  limit.NewFairLimiter(limit.Budget{PerSecond: reviewsPerSecond, Burst: reviewsAtOnce, Share: reviewShare}),
		callers: newMemory[authenticationv1.UserInfo](trustFor), allowed: newMemory[struct{}](trustFor), refused: newMemory[error](distrustFor),
	}
}

// A credential is what a request presents, and where it comes from.
type credential struct{ token, source string }

func credentialOf(request *http.Request) credential {
	return credential{token: bearer(request), source: limit.SourceOf(request.RemoteAddr)}
}

// review asks the API server, in turn.
func (g *guard) review(ctx context.Context, source string, ask func() error) error {
	waiting, cancel := context.WithTimeout(ctx, longestTurn)
	defer cancel()
	if err := g.budget.Wait(waiting, source); err != nil {
		g.refusals.Count(limit.TokenReviews)
		return refuse(http.StatusTooManyRequests, "too many tokens have to be reviewed: try again later")
	}
	return g.reviews.pass(ctx, ask)
}

// bearer returns the token of a request, "" for none.
func bearer(request *http.Request) string {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// admit returns why the bearer of a token may not have what it asks for.
func (g *guard) admit(ctx context.Context, shown credential, wanted right) error {
	if shown.token == "" || len(shown.token) > longestToken {
		return refuse(http.StatusUnauthorized, "this path needs a header `Authorization: Bearer <token>`: kubectl create token makes one")
	}
	caller, err := g.identify(ctx, shown)
	if err != nil {
		return err
	}
	key := fingerprintOf(shown.token, wanted.verb, wanted.resource, wanted.namespace, wanted.name)
	if _, known := g.allowed.recall(key); known {
		return nil
	}
	if refused, known := g.refused.recall(key); known {
		return refused
	}
	return g.authorize(ctx, shown, caller, wanted, key)
}

// identify returns whose token it is.
func (g *guard) identify(ctx context.Context, shown credential) (authenticationv1.UserInfo, error) {
	key := fingerprintOf(shown.token)
	if caller, known := g.callers.recall(key); known {
		return caller, nil
	}
	if refused, known := g.refused.recall(key); known {
		return authenticationv1.UserInfo{}, refused
	}
	var caller authenticationv1.UserInfo
	known := false
	err := g.review(ctx, shown.source, func() (err error) {
		if caller, known, err = g.judge.Identify(ctx, shown.token); err != nil {
			return refuse(http.StatusServiceUnavailable, "review token: %v", err)
		}
		return nil
	})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	if !known {
		err := refuse(http.StatusUnauthorized, "the API server does not accept the token: it is expired, forged, revoked, or issued for another audience")
		g.refused.keep(key, err)
		return authenticationv1.UserInfo{}, err
	}
	g.callers.keep(key, caller)
	return caller, nil
}

// authorize asks whether a caller has a right, and caches the answer under the key.
func (g *guard) authorize(ctx context.Context, shown credential, caller authenticationv1.UserInfo, wanted right, key fingerprint) error {
	allowed := false
	err := g.review(ctx, shown.source, func() (err error) {
		if allowed, err = g.judge.Allows(ctx, shown.token, caller, wanted.wanted()); err != nil {
			return refuse(http.StatusServiceUnavailable, "review access: %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !allowed {
		denied := wanted.denied(caller.Username)
		g.refused.keep(key, denied)
		return denied
	}
	g.allowed.keep(key, struct{}{})
	return nil
}

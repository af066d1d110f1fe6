package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	// A real token has about 1 KiB; anything far above is not worth the API server's time.
	longestToken = 8 << 10
	// mostReviews happen at once, however many callers there are.
	mostReviews = 8
)

// TokenReviews is the part of client-go that asks the API server about a token.
type TokenReviews interface {
	Create(ctx context.Context, review *authenticationv1.TokenReview, options metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// AccessReviews is the part of client-go that asks the API server what somebody may do.
type AccessReviews interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, options metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// A right is what a request needs. Without a namespace it is the right in all of them.
type right struct{ verb, resource, namespace, name string }

// denied says which right is missing, in the words of kubectl.
func (r right) denied(caller string) error {
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

// A turnstile lets so many through at once. The others wait, for as long as their requests may.
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

// A guard lets in whom the API server knows and allows. Only its good answers are remembered, so that rights count as soon as they are
// given.
type guard struct {
	tokens  TokenReviews
	access  AccessReviews
	reviews turnstile
	callers *memory[authenticationv1.UserInfo]
	allowed *memory[struct{}]
}

func newGuard(tokens TokenReviews, access AccessReviews) *guard {
	return &guard{
		tokens: tokens, access: access, reviews: make(turnstile, mostReviews),
		callers: newMemory[authenticationv1.UserInfo](), allowed: newMemory[struct{}](),
	}
}

// bearer is the token of a request, "" for none.
func bearer(request *http.Request) string {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// admit returns why the bearer of a token may not have what it asks for.
func (g *guard) admit(ctx context.Context, token string, wanted right) error {
	if token == "" || len(token) > longestToken {
		return refuse(http.StatusUnauthorized, "this path needs a header `Authorization: Bearer <token>`: kubectl create token makes one")
	}
	caller, err := g.identify(ctx, token)
	if err != nil {
		return err
	}
	key := fingerprintOf(token, wanted.verb, wanted.resource, wanted.namespace, wanted.name)
	if _, known := g.allowed.recall(key); known {
		return nil
	}
	if err := g.authorize(ctx, caller, wanted); err != nil {
		return err
	}
	g.allowed.keep(key, struct{}{})
	return nil
}

// identify says whose token it is.
func (g *guard) identify(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	key := fingerprintOf(token)
	if caller, known := g.callers.recall(key); known {
		return caller, nil
	}
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	err := g.reviews.pass(ctx, func() (err error) {
		if asked, err = g.tokens.Create(ctx, asked, metav1.CreateOptions{}); err != nil {
			return refuse(http.StatusServiceUnavailable, "review token: %v", err)
		}
		return nil
	})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	if !asked.Status.Authenticated {
		return authenticationv1.UserInfo{}, refuse(http.StatusUnauthorized, "the API server does not accept the token: it is expired, forged, revoked, or meant for somebody else")
	}
	g.callers.keep(key, asked.Status.User)
	return asked.Status.User, nil
}

// authorize asks whether a caller has a right.
func (g *guard) authorize(ctx context.Context, caller authenticationv1.UserInfo, wanted right) error {
	asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: caller.Username, UID: caller.UID, Groups: caller.Groups, Extra: extras(caller.Extra),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: wanted.verb, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
			Resource: wanted.resource, Namespace: wanted.namespace, Name: wanted.name,
		},
	}}
	err := g.reviews.pass(ctx, func() (err error) {
		if asked, err = g.access.Create(ctx, asked, metav1.CreateOptions{}); err != nil {
			return refuse(http.StatusServiceUnavailable, "review access: %v", err)
		}
		return nil
	})
	if err == nil && !asked.Status.Allowed {
		return wanted.denied(caller.Username)
	}
	return err
}

func extras(of map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	to := make(map[string]authorizationv1.ExtraValue, len(of))
	for key, values := range of {
		to[key] = authorizationv1.ExtraValue(values)
	}
	return to
}

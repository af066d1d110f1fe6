package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxClockSkew is how far the API server's clock may differ from ours.
const maxClockSkew = 10 * time.Second

// signingAlgorithms returns the ones that API servers sign with. None of them uses a public key as a secret.
func signingAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}
}

// A TokenVerifier checks tokens by the keys that the cluster publishes, for operators that may not create token reviews:
// signature, expiry, audience, and that the pod they are bound to exists with the same UID. It reads pods from a cache, so a
// deleted pod loses its access at once. It does not notice that a service account was deleted while one of its pods lives on.
type TokenVerifier struct {
	keys       *keyCache
	pods       client.Reader
	namespaces []string
	now        func() time.Time
}

// NewTokenVerifier returns an Authenticator that uses the published keys and a cache of the pods in these namespaces.
func NewTokenVerifier(published DocumentReader, pods client.Reader, namespaces []string) *TokenVerifier {
	return &TokenVerifier{keys: newKeyCache(published, time.Now), pods: pods, namespaces: namespaces, now: time.Now}
}

// Prepare fetches the keys, so that the caller learns at startup whether they are available.
func (v *TokenVerifier) Prepare(ctx context.Context) error {
	_, err := v.keys.current(ctx)
	return err
}

// tokenClaims are the contents of a service account token.
type tokenClaims struct {
	jwt.Claims

	Kubernetes struct {
		Namespace string `json:"namespace"`
		Pod       struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"pod"`
		ServiceAccount struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

func (c tokenClaims) identity() Identity {
	return Identity{Namespace: c.Kubernetes.Namespace, Pod: c.Kubernetes.Pod.Name, PodUID: c.Kubernetes.Pod.UID}
}

func (c tokenClaims) accountKey() accountKey {
	return accountKey{c.Subject, c.Kubernetes.ServiceAccount.UID}
}

// Authenticate implements Authenticator.
func (v *TokenVerifier) Authenticate(ctx context.Context, token string) (Identity, error) {
	claims, err := v.keys.verify(ctx, token, v.now())
	if err != nil {
		return Identity{}, err
	}
	identity := claims.identity()
	if !slices.Contains(v.namespaces, identity.Namespace) {
		return Identity{}, fmt.Errorf("%w: namespace %q is not this operator's", ErrDenied, identity.Namespace)
	}
	return identity, v.checkPod(ctx, identity)
}

// verify returns the claims of a token if the cluster has signed it and it is valid at the given time: issuer, audience,
// expiry, and that it is bound to a pod. It does not check whether that pod exists.
func (k *keyCache) verify(ctx context.Context, token string, now time.Time) (tokenClaims, error) {
	signed, err := parseToken(token)
	if err != nil {
		return tokenClaims{}, err
	}
	keys, err := k.getForKey(ctx, signed.Headers[0].KeyID)
	if err != nil {
		return tokenClaims{}, err
	}
	claims, err := keys.verify(signed)
	if err != nil {
		return tokenClaims{}, err
	}
	return claims, claims.validate(keys.issuer, now)
}

// parseToken reads the form of a token. All of its errors are final.
func parseToken(token string) (*jwt.JSONWebToken, error) {
	if token == "" || len(token) > maxTokenBytes {
		return nil, fmt.Errorf("%w: its length is not a token's", ErrDenied)
	}
	signed, err := jwt.ParseSigned(token, signingAlgorithms())
	if err != nil || len(signed.Headers) != 1 {
		return nil, fmt.Errorf("%w: it is not one that an API server has signed", ErrDenied)
	}
	return signed, nil
}

// parseUnverified returns the claims of a token without checking its signature. All of its errors are final.
func parseUnverified(token string) (tokenClaims, error) {
	signed, err := parseToken(token)
	if err != nil {
		return tokenClaims{}, err
	}
	claims := tokenClaims{}
	if err := signed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return tokenClaims{}, fmt.Errorf("%w: it says what no API server would", ErrDenied)
	}
	return claims, nil
}

// validate checks claims whose signature is valid. All of its errors are final.
func (c tokenClaims) validate(issuer string, now time.Time) error {
	expected := jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{Audience}, Time: now}
	if c.Expiry == nil {
		return fmt.Errorf("%w: it never expires", ErrDenied)
	}
	if err := c.ValidateWithLeeway(expected, maxClockSkew); err != nil {
		return fmt.Errorf("%w: %s", ErrDenied, describeClaimsError(err))
	}
	return c.checkBinding()
}

// checkBinding requires the token of a pod.
func (c tokenClaims) checkBinding() error {
	kubernetes := c.Kubernetes
	if c.Subject != serviceAccountPrefix+kubernetes.Namespace+":"+kubernetes.ServiceAccount.Name || kubernetes.Namespace == "" ||
		kubernetes.Pod.Name == "" || kubernetes.Pod.UID == "" {
		return fmt.Errorf("%w: it is not bound to a pod", ErrDenied)
	}
	return nil
}

// describeClaimsError describes what is wrong with claims: the library's errors name the library.
func describeClaimsError(err error) string {
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "another cluster has issued it"
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "it is not for audience " + Audience
	case errors.Is(err, jwt.ErrExpired):
		return "it has expired"
	}
	return "its time has not come"
}

// checkPod looks for the pod. A pod that is gone, or another one of the same name, proves nothing.
func (v *TokenVerifier) checkPod(ctx context.Context, identity Identity) error {
	pod := &corev1.Pod{}
	err := v.pods.Get(ctx, client.ObjectKey{Namespace: identity.Namespace, Name: identity.Pod}, pod)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for pod of token: %w", err)
	}
	if err != nil || string(pod.UID) != identity.PodUID {
		return fmt.Errorf("%w: its pod is gone", ErrDenied)
	}
	return nil
}

package link

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const issuer = "https://kubernetes.default.svc"

// A signer is a key of an API server.
type signer struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       crypto.Signer
}

// Keys take long to make.
var (
	rsaKey = sync.OnceValue(func() crypto.Signer {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return key
	})
	curveKey = sync.OnceValue(newCurveKey)
)

func newCurveKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newRSASigner() signer   { return signer{"one", jose.RS256, rsaKey()} }
func newECDSASigner() signer { return signer{"two", jose.ES256, curveKey()} }

// sign returns a signed token with these claims.
func (s signer) sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	return signToken(t, s.algorithm, s.id, s.key, claims)
}

func signToken(t testing.TB, algorithm jose.SignatureAlgorithm, id string, key any, claims map[string]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithHeader(jose.HeaderKey("kid"), id)
	joseSigner, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(joseSigner).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A server publishes keys, and has pods.
type fakeAPIServer struct {
	issuer   string
	keys     []signer
	fetchErr error
	fetches  int
	pods     map[client.ObjectKey]types.UID
	getErr   error
	client.Reader
}

func newFakeAPIServer(keys ...signer) *fakeAPIServer {
	return &fakeAPIServer{issuer: issuer, keys: keys, pods: map[client.ObjectKey]types.UID{{Namespace: "ns", Name: "coder-0"}: "u-1"}}
}

func (s *fakeAPIServer) documents(_ context.Context, path string) ([]byte, error) {
	if s.fetchErr != nil {
		return nil, s.fetchErr
	}
	if path == issuerPath {
		return json.Marshal(map[string]any{"issuer": s.issuer, "jwks_uri": "https://elsewhere.example.test/keys"})
	}
	s.fetches++
	set := jose.JSONWebKeySet{}
	for _, one := range s.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{KeyID: one.id, Algorithm: string(one.algorithm), Use: "sig", Key: one.key.Public()})
	}
	return json.Marshal(set)
}

// Get reads the cache of pods.
func (s *fakeAPIServer) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	uid, found := s.pods[key]
	if !found && s.getErr == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	*object.(*corev1.Pod) = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}}
	return s.getErr
}

// A clock stands still unless it is moved.
type clock struct{ time time.Time }

func (c *clock) now() time.Time { return c.time }

func (s *fakeAPIServer) verifier() (*TokenVerifier, *clock) {
	at := &clock{time.Unix(1_800_000_000, 0)}
	made := NewTokenVerifier(s.documents, s, []string{"ns", "also"})
	made.now, made.keys.now = at.now, at.now
	return made, at
}

// validClaims are the claims of the agent's token, as API servers write them.
func validClaims() map[string]any {
	now := int64(1_800_000_000)
	return map[string]any{
		"iss": issuer, "aud": []string{Audience}, "sub": "system:serviceaccount:ns:default", "iat": now - 60, "nbf": now - 60, "exp": now + 600,
		"jti": "6d7a",
		"kubernetes.io": map[string]any{
			"namespace": "ns", "pod": map[string]any{"name": "coder-0", "uid": "u-1"},
			"serviceaccount": map[string]any{"name": "default", "uid": "u-2"},
			"node":           map[string]any{"name": "node-1", "uid": "u-3"},
		},
	}
}

// withChange returns a copy with another value.
func withChange(claims map[string]any, name string, value any) map[string]any {
	changed := maps.Clone(claims)
	changed[name] = value
	return changed
}

// podBoundClaims returns the claims of a pod.
func podBoundClaims(namespace, pod, uid string) map[string]any {
	claims := withChange(validClaims(), "sub", "system:serviceaccount:"+namespace+":default")
	return withChange(claims, "kubernetes.io", map[string]any{
		"namespace": namespace, "pod": map[string]any{"name": pod, "uid": uid}, "serviceaccount": map[string]any{"name": "default", "uid": "u-2"},
	})
}

func TestTokenOfThePodIsKnown(t *testing.T) {
	for _, by := range []signer{newRSASigner(), newECDSASigner()} {
		verifier, _ := newFakeAPIServer(newRSASigner(), newECDSASigner()).verifier()
		if got, err := verifier.Authenticate(t.Context(), by.sign(t, validClaims())); err != nil || got != (Identity{"ns", "coder-0", "u-1"}) {
			t.Errorf("%s: got %v, %v", by.algorithm, got, err)
		}
	}
}

func TestClaimsAreReadStrictly(t *testing.T) {
	now := int64(1_800_000_000)
	for _, c := range []struct {
		reason string
		claims map[string]any
		want   string
	}{
		{"another audience", withChange(validClaims(), "aud", []string{issuer}), "not for audience swarm.io"},
		{"no audience", withChange(validClaims(), "aud", []string{}), "not for audience swarm.io"},
		{"claims of another form", withChange(validClaims(), "aud", nil), "says what no API server would"},
		{"another issuer", withChange(validClaims(), "iss", "https://elsewhere.example.test"), "another cluster"},
		{"no issuer", withChange(validClaims(), "iss", ""), "another cluster"},
		{"expired", withChange(validClaims(), "exp", now-60), "expired"},
		{"never expires", withChange(validClaims(), "exp", nil), "never expires"},
		{"not valid yet", withChange(validClaims(), "nbf", now+60), "its time has not come"},
		{"made in the future", withChange(validClaims(), "iat", now+60), "its time has not come"},
		{"a token of the old kind", withChange(validClaims(), "kubernetes.io", nil), "not bound to a pod"},
		{"no pod", podBoundClaims("ns", "", ""), "not bound to a pod"},
		{"no UID", podBoundClaims("ns", "coder-0", ""), "not bound to a pod"},
		{"no namespace", podBoundClaims("", "coder-0", "u-1"), "not bound to a pod"},
		{"another user's name", withChange(validClaims(), "sub", "alice"), "not bound to a pod"},
		{"an account of another namespace", withChange(validClaims(), "sub", "system:serviceaccount:other:default"), "not bound to a pod"},
		{"another namespace", podBoundClaims("other", "coder-0", "u-1"), `namespace "other" is not this operator's`},
		{"pod gone", podBoundClaims("ns", "coder-9", "u-1"), "its pod is gone"},
		{"another pod of that name", podBoundClaims("ns", "coder-0", "u-0"), "its pod is gone"},
		{"another pod of another of our namespaces", podBoundClaims("also", "coder-0", "u-1"), "its pod is gone"},
	} {
		verifier, _ := newFakeAPIServer(newRSASigner()).verifier()
		got, err := verifier.Authenticate(t.Context(), newRSASigner().sign(t, c.claims))
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v", c.reason, got, err)
		}
	}
}

func TestForgedTokensAreDenied(t *testing.T) {
	public := rsaKey().Public()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	part := func(value any) string {
		text, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	validToken := strings.Split(newRSASigner().sign(t, validClaims()), ".")
	attackerKey := newCurveKey()
	embedded := (&jose.SignerOptions{EmbedJWK: true}).WithHeader(jose.HeaderKey("kid"), "one")
	inside, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: attackerKey}, embedded)
	if err != nil {
		t.Fatal(err)
	}
	embeddedKey, err := jwt.Signed(inside).Claims(validClaims()).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for reason, token := range map[string]string{
		"another key of the same id": signToken(t, jose.RS256, "one", mustRSA(t), validClaims()),
		"another kind of key":        signToken(t, jose.ES256, "one", attackerKey, validClaims()),
		"a key that it brings along": embeddedKey,
		"HS256 with the public key":  signToken(t, jose.HS256, "one", der, validClaims()),
		"alg none":                   part(map[string]any{"alg": "none", "kid": "one"}) + "." + validToken[1] + ".",
		"alg none with a signature":  part(map[string]any{"alg": "none", "kid": "one"}) + "." + validToken[1] + "." + validToken[2],
		"other claims": validToken[0] + "." + part(withChange(validClaims(), "sub", "system:serviceaccount:ns:other")) + "." +
			validToken[2],
		"no signature":        validToken[0] + "." + validToken[1] + ".",
		"no key is named":     signToken(t, jose.RS256, "", rsaKey(), validClaims()),
		"an unused algorithm": signToken(t, jose.PS256, "one", rsaKey(), validClaims()),
		"JSON instead":        `{"payload":"` + validToken[1] + `","protected":"` + validToken[0] + `","signature":"` + validToken[2] + `"}`,
		"garbage":             "garbage",
		"nothing":             "",
		"far too long":        strings.Repeat("x", maxTokenBytes+1),
	} {
		verifier, _ := newFakeAPIServer(newRSASigner()).verifier()
		if got, err := verifier.Authenticate(t.Context(), token); !errors.Is(err, ErrDenied) || got != (Identity{}) {
			t.Errorf("%s: got %v, %v", reason, got, err)
		}
	}
}

func mustRSA(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestDeletedPodLosesAccessAtOnce(t *testing.T) {
	of := newFakeAPIServer(newECDSASigner())
	verifier, _ := of.verifier()
	token := newECDSASigner().sign(t, validClaims())
	if _, err := verifier.Authenticate(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	clear(of.pods)
	if _, err := verifier.Authenticate(t.Context(), token); !errors.Is(err, ErrDenied) {
		t.Errorf("got %v", err)
	}
	of.getErr = errors.New("the cache has not started")
	if _, err := verifier.Authenticate(t.Context(), token); err == nil || errors.Is(err, ErrDenied) {
		t.Errorf("the keys are not available, and got %v", err)
	}
}

func TestKeysRotate(t *testing.T) {
	of := newFakeAPIServer(newECDSASigner())
	verifier, at := of.verifier()
	fresh := signer{"three", jose.ES256, newCurveKey()}
	ask := func(by signer, denied bool, fetches int) {
		t.Helper()
		before := of.fetches
		if _, err := verifier.Authenticate(t.Context(), by.sign(t, validClaims())); errors.Is(err, ErrDenied) != denied ||
			(err == nil) == denied {
			t.Errorf("%s: got %v", by.id, err)
		}
		if of.fetches-before != fetches {
			t.Errorf("%s: keys were fetched %d times", by.id, of.fetches-before)
		}
	}
	ask(newECDSASigner(), false, 1)
	ask(newECDSASigner(), false, 0)
	of.keys = append(of.keys, fresh)
	ask(fresh, true, 0) // they were read just now
	at.time = at.time.Add(minFetchInterval)
	ask(fresh, false, 1)
	ask(newECDSASigner(), false, 0)
	of.keys = []signer{fresh}
	at.time = at.time.Add(keysTTL)
	ask(newECDSASigner(), true, 1) // is published no more
	ask(fresh, false, 0)
}

func TestUnavailableAPIServerIsNoDenial(t *testing.T) {
	of := newFakeAPIServer(newECDSASigner())
	of.fetchErr = errors.New("connection refused")
	verifier, at := of.verifier()
	token := newECDSASigner().sign(t, validClaims())
	retry := func(reason string) {
		t.Helper()
		if _, err := verifier.Authenticate(t.Context(), token); err == nil || errors.Is(err, ErrDenied) ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: got %v", reason, err)
		}
	}
	retry("at the first try")
	retry("just after")
	of.fetchErr = nil
	at.time = at.time.Add(minFetchInterval)
	if _, err := verifier.Authenticate(t.Context(), token); err != nil {
		t.Errorf("it is back, and got %v", err)
	}
	of.fetchErr = errors.New("connection refused")
	at.time = at.time.Add(minFetchInterval)
	if _, err := verifier.Authenticate(t.Context(), token); err != nil {
		t.Errorf("the key is known, and got %v", err)
	}
	at.time = at.time.Add(keysTTL)
	retry("when what is known is too old")
}

func TestPublishedKeysMustBeUsable(t *testing.T) {
	for reason, documents := range map[string]map[string]string{
		"no issuer":   {issuerPath: `{}`, keysPath: `{"keys":[]}`},
		"no keys":     {issuerPath: `{"issuer":"` + issuer + `"}`, keysPath: `{"keys":[]}`},
		"not a key":   {issuerPath: `{"issuer":"` + issuer + `"}`, keysPath: `{"keys":[{"kty":"RSA"}]}`},
		"not JSON":    {issuerPath: `<html>`, keysPath: `<html>`},
		"other types": {issuerPath: `{"issuer":["a"]}`, keysPath: `{"keys":{}}`},
	} {
		read := func(_ context.Context, path string) ([]byte, error) { return []byte(documents[path]), nil }
		if err := NewTokenVerifier(read, newFakeAPIServer(), []string{"ns"}).Prepare(t.Context()); err == nil {
			t.Errorf("%s: accepted", reason)
		}
	}
}

func TestFloodOfUnknownKeysIsBounded(t *testing.T) {
	of := newFakeAPIServer(newECDSASigner())
	verifier, at := of.verifier()
	for n := range 1000 {
		stranger := signer{fmt.Sprint("unknown-", n), jose.ES256, curveKey()}
		if _, err := verifier.Authenticate(t.Context(), stranger.sign(t, validClaims())); !errors.Is(err, ErrDenied) {
			t.Fatalf("got %v", err)
		}
		at.time = at.time.Add(20 * time.Millisecond)
	}
	if limit := int(20*time.Second/minFetchInterval) + 1; of.fetches > limit {
		t.Errorf("keys were fetched %d times in 20 s, at most %d would do", of.fetches, limit)
	}
}

func TestCancelledCallerDoesNotCancelTheFetch(t *testing.T) {
	of := newFakeAPIServer(newECDSASigner())
	verifier, _ := of.verifier()
	read := verifier.keys.documents
	verifier.keys.documents = func(ctx context.Context, path string) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return read(ctx, path)
	}
	hungUp, hangUp := context.WithCancel(t.Context())
	hangUp()
	_, _ = verifier.keys.getForKey(hungUp, "unknown")
	if _, err := verifier.Authenticate(t.Context(), newECDSASigner().sign(t, validClaims())); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestWaitForKeysEndsWithTheContext(t *testing.T) {
	verifier, _ := newFakeAPIServer(newECDSASigner()).verifier()
	verifier.keys.fetchLock <- struct{}{} // another goroutine fetches
	waiting, give := context.WithCancel(t.Context())
	give()
	if _, err := verifier.Authenticate(waiting, newECDSASigner().sign(t, validClaims())); !errors.Is(err, context.Canceled) ||
		errors.Is(err, ErrDenied) {
		t.Errorf("got %v", err)
	}
}

func FuzzTokenVerifier(f *testing.F) {
	good := newECDSASigner().sign(f, validClaims())
	parts := strings.Split(good, ".")
	for _, seed := range []string{good, "", "..", parts[0] + "..", parts[0] + "." + parts[1] + ".", "a.b.c", good + "."} {
		f.Add(seed)
	}
	verifier, _ := newFakeAPIServer(newECDSASigner()).verifier()
	f.Fuzz(func(t *testing.T, token string) {
		got, err := verifier.Authenticate(t.Context(), token)
		if err == nil && got != (Identity{"ns", "coder-0", "u-1"}) || err != nil && !errors.Is(err, ErrDenied) {
			t.Errorf("%q: got %v, %v", token, got, err)
		}
	})
}

package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// Where every API server publishes its issuer and the keys with which it signs tokens.
	issuerPath, keysPath = "/.well-known/openid-configuration", "/openid/v1/jwks"

	// How long a key stays trusted after it is no longer published.
	keysFor = time.Minute
	// Requests for the published keys are at least this far apart, whatever tokens strangers present.
	fetchEvery = 5 * time.Second
	// fetchWithin is independent of the caller's context: a stranger that hangs up does not cancel the fetch for others.
	fetchWithin = 5 * time.Second
)

// Documents reads a document from the API server.
type Documents func(ctx context.Context, path string) ([]byte, error)

// published is one version of the issuer and its keys.
type published struct {
	issuer string
	keys   jose.JSONWebKeySet
}

func (p published) has(id string) bool { return id != "" && len(p.keys.Key(id)) > 0 }

// verify reads the claims of a token if the key with that id has signed it.
func (p published) verify(token *jwt.JSONWebToken) (claims, error) {
	for _, key := range p.keys.Key(token.Headers[0].KeyID) {
		said := claims{}
		if token.Claims(key.Key, &said) == nil {
			return said, nil
		}
	}
	return claims{}, fmt.Errorf("%w: it is forged, or says what no API server would", ErrDenied)
}

// A keyring caches the published keys. The first caller that misses a key refreshes them; concurrent callers that need the
// key wait for that refresh.
type keyring struct {
	documents Documents
	now       func() time.Time

	turn  chan struct{} // held while fetching
	tried time.Time     // last fetch; guarded by turn
	err   error         // of that fetch, likewise

	mu    sync.Mutex
	held  published
	since time.Time // when held was fetched
}

func newKeyring(documents Documents, now func() time.Time) *keyring {
	return &keyring{documents: documents, now: now, turn: make(chan struct{}, 1)}
}

// current returns the published keys, at most a while old.
func (k *keyring) current(ctx context.Context) (published, error) {
	return k.holding(ctx, func(published) bool { return true })
}

// having returns the published keys for a token signed with this key. An unknown key may be a new one.
func (k *keyring) having(ctx context.Context, id string) (published, error) {
	held, err := k.holding(ctx, func(held published) bool { return held.has(id) })
	if err == nil && !held.has(id) {
		return published{}, fmt.Errorf("%w: it is signed with a key that the cluster does not publish", ErrDenied)
	}
	return held, err
}

// holding returns the published keys, after a fetch if those held are too old or not enough and the last fetch was not just
// now. Callers for which they are enough do not wait for a fetch that others need.
func (k *keyring) holding(ctx context.Context, enough func(published) bool) (published, error) {
	if held, valid := k.look(); valid && enough(held) {
		return held, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return published{}, fmt.Errorf("wait for the keys of the cluster: %w", ctx.Err())
	}
	if held, valid := k.look(); valid && enough(held) {
		return held, nil
	}
	return k.refresh(ctx)
}

// look returns the keys held and whether they are recent enough to be trusted.
func (k *keyring) look() (held published, valid bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held, !k.since.IsZero() && k.now().Sub(k.since) < keysFor
}

// refresh fetches the published keys, unless that was tried just now. The caller holds turn.
func (k *keyring) refresh(ctx context.Context) (published, error) {
	if now := k.now(); k.tried.IsZero() || now.Sub(k.tried) >= fetchEvery {
		fetching, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchWithin)
		defer cancel()
		k.tried = now
		fetched, err := fetch(fetching, k.documents)
		if k.err = err; err == nil {
			k.keep(fetched, now)
		}
	}
	held, _ := k.look()
	return held, k.err
}

func (k *keyring) keep(fetched published, since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held, k.since = fetched, since
}

func fetch(ctx context.Context, documents Documents) (published, error) {
	said := struct {
		Issuer string `json:"issuer"`
	}{}
	found := published{}
	err := errors.Join(decode(ctx, documents, issuerPath, &said), decode(ctx, documents, keysPath, &found.keys))
	if err == nil && (said.Issuer == "" || len(found.keys.Keys) == 0) {
		err = errors.New("the API server publishes no issuer, or no keys")
	}
	if err != nil {
		return published{}, fmt.Errorf("read the keys with which the cluster signs tokens: %w", err)
	}
	found.issuer = said.Issuer
	return found, nil
}

func decode(ctx context.Context, documents Documents, path string, into any) error {
	text, err := documents(ctx, path)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

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
	keysTTL = time.Minute
	// Requests for the published keys are at least this far apart, whatever tokens strangers present.
	minFetchInterval = 5 * time.Second
	// fetchTimeout is independent of the caller's context: a stranger that hangs up does not cancel the fetch for others.
	fetchTimeout = 5 * time.Second
)

// DocumentReader reads a document from the API server.
type DocumentReader func(ctx context.Context, path string) ([]byte, error)

// issuerKeys is one version of the issuer and its keys.
type issuerKeys struct {
	issuer string
	keys   jose.JSONWebKeySet
}

func (p issuerKeys) hasKey(id string) bool { return id != "" && len(p.keys.Key(id)) > 0 }

// verify reads the claims of a token if the key with that id has signed it.
func (p issuerKeys) verify(token *jwt.JSONWebToken) (tokenClaims, error) {
	for _, key := range p.keys.Key(token.Headers[0].KeyID) {
		claims := tokenClaims{}
		if token.Claims(key.Key, &claims) == nil {
			return claims, nil
		}
	}
	return tokenClaims{}, fmt.Errorf("%w: it is forged, or says what no API server would", ErrDenied)
}

// A keyCache caches the published keys. The first caller that misses a key refreshes them; concurrent callers that need the
// key wait for that refresh.
type keyCache struct {
	documents DocumentReader
	now       func() time.Time

	fetchLock chan struct{} // held while fetching
	lastFetch time.Time     // last fetch; guarded by turn
	lastErr   error         // of that fetch, likewise

	mu       sync.Mutex
	cached   issuerKeys
	cachedAt time.Time // when held was fetched
}

func newKeyCache(documents DocumentReader, now func() time.Time) *keyCache {
	return &keyCache{documents: documents, now: now, fetchLock: make(chan struct{}, 1)}
}

// current returns the published keys, at most a while old.
func (k *keyCache) current(ctx context.Context) (issuerKeys, error) {
	return k.getIf(ctx, func(issuerKeys) bool { return true })
}

// getForKey returns the published keys for a token signed with this key. An unknown key may be a new one.
func (k *keyCache) getForKey(ctx context.Context, id string) (issuerKeys, error) {
	keys, err := k.getIf(ctx, func(keys issuerKeys) bool { return keys.hasKey(id) })
	if err == nil && !keys.hasKey(id) {
		return issuerKeys{}, fmt.Errorf("%w: it is signed with a key that the cluster does not publish", ErrDenied)
	}
	return keys, err
}

// getIf returns the published keys, after a fetch if those held are too old or not enough and the last fetch was not just
// now. Callers for which they are enough do not wait for a fetch that others need.
func (k *keyCache) getIf(ctx context.Context, suffices func(issuerKeys) bool) (issuerKeys, error) {
	if keys, valid := k.cachedKeys(); valid && suffices(keys) {
		return keys, nil
	}
	select {
	case k.fetchLock <- struct{}{}:
		defer func() { <-k.fetchLock }()
	case <-ctx.Done():
		return issuerKeys{}, fmt.Errorf("wait for the keys of the cluster: %w", ctx.Err())
	}
	if keys, valid := k.cachedKeys(); valid && suffices(keys) {
		return keys, nil
	}
	return k.refresh(ctx)
}

// cachedKeys returns the keys held and whether they are recent enough to be trusted.
func (k *keyCache) cachedKeys() (keys issuerKeys, valid bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cached, !k.cachedAt.IsZero() && k.now().Sub(k.cachedAt) < keysTTL
}

// refresh fetches the published keys, unless that was tried just now. The caller holds turn.
func (k *keyCache) refresh(ctx context.Context) (issuerKeys, error) {
	if now := k.now(); k.lastFetch.IsZero() || now.Sub(k.lastFetch) >= minFetchInterval {
		fetchCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		k.lastFetch = now
		fetched, err := fetchIssuerKeys(fetchCtx, k.documents)
		if k.lastErr = err; err == nil {
			k.store(fetched, now)
		}
	}
	keys, _ := k.cachedKeys()
	return keys, k.lastErr
}

func (k *keyCache) store(fetched issuerKeys, fetchedAt time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cached, k.cachedAt = fetched, fetchedAt
}

func fetchIssuerKeys(ctx context.Context, documents DocumentReader) (issuerKeys, error) {
	discovery := struct {
		Issuer string `json:"issuer"`
	}{}
	keys := issuerKeys{}
	err := errors.Join(getJSON(ctx, documents, issuerPath, &discovery), getJSON(ctx, documents, keysPath, &keys.keys))
	if err == nil && (discovery.Issuer == "" || len(keys.keys.Keys) == 0) {
		err = errors.New("the API server publishes no issuer, or no keys")
	}
	if err != nil {
		return issuerKeys{}, fmt.Errorf("read the keys with which the cluster signs tokens: %w", err)
	}
	keys.issuer = discovery.Issuer
	return keys, nil
}

func getJSON(ctx context.Context, documents DocumentReader, path string, target any) error {
	text, err := documents(ctx, path)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	if err := json.Unmarshal(text, target); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

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
	// Where every API server publishes by which name and with which keys it signs tokens.
	issuerPath, keysPath = "/.well-known/openid-configuration", "/openid/v1/jwks"

	// A key that is published no more is trusted this long.
	keysFor = time.Minute
	// Whatever strangers show, what is published is not asked for more often than this.
	fetchEvery = 5 * time.Second
	// fetchWithin does not depend on who caused it: a stranger who hangs up spoils it for nobody.
	fetchWithin = 5 * time.Second
)

// Documents reads what the API server has at a path.
type Documents func(ctx context.Context, path string) ([]byte, error)

// published is what was read at one time.
type published struct {
	issuer string
	keys   jose.JSONWebKeySet
}

func (p published) has(id string) bool { return id != "" && len(p.keys.Key(id)) > 0 }

// verify reads the claims of a token if a key of that id has signed them.
func (p published) verify(token *jwt.JSONWebToken) (claims, error) {
	for _, key := range p.keys.Key(token.Headers[0].KeyID) {
		said := claims{}
		if token.Claims(key.Key, &said) == nil {
			return said, nil
		}
	}
	return claims{}, fmt.Errorf("%w: it is forged, or says what no API server would", ErrDenied)
}

// A keyring keeps what is published. Whoever finds it wanting fetches it for all; those who need it wait for that.
type keyring struct {
	documents Documents
	now       func() time.Time

	turn  chan struct{} // held by whoever fetches
	tried time.Time     // last, known to the one in turn
	err   error         // of that try, likewise

	mu    sync.Mutex
	held  published
	since time.Time // of held
}

func newKeyring(documents Documents, now func() time.Time) *keyring {
	return &keyring{documents: documents, now: now, turn: make(chan struct{}, 1)}
}

// current is what is published, as of a while ago at most.
func (k *keyring) current(ctx context.Context) (published, error) {
	return k.holding(ctx, func(published) bool { return true })
}

// having is what is published now that a token came with this key. A key that nobody knows may be a new one.
func (k *keyring) having(ctx context.Context, id string) (published, error) {
	held, err := k.holding(ctx, func(held published) bool { return held.has(id) })
	if err == nil && !held.has(id) {
		return published{}, fmt.Errorf("%w: it is signed with a key that the cluster does not publish", ErrDenied)
	}
	return held, err
}

// holding is what is published, fetched if what is held is too old or not enough, and if the last try was not just now. What is enough is not kept
// waiting by a fetch that others need.
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

// look returns what is held and whether it is young enough to be trusted.
func (k *keyring) look() (held published, valid bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held, !k.since.IsZero() && k.now().Sub(k.since) < keysFor
}

// refresh fetches what is published, unless that was tried just now. It is called in turn.
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

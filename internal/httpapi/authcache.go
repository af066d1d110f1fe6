package httpapi

import (
	"crypto/sha256"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// positiveTTL is how long a revoked token or right may still be accepted, and negativeTTL how long a new one may be rejected.
	positiveTTL, negativeTTL = 10 * time.Second, 2 * time.Second
	maxCached                = 4096
)

// A cacheKey is the key of an answer, so that neither tokens nor long names are stored.
type cacheKey [sha256.Size]byte

func newCacheKey(parts ...string) cacheKey {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part) // with its length, so that different parts cannot have the same hash
	}
	return cacheKey(hash.Sum(nil))
}

// An authCache caches a bounded number of answers for a short time. When it is full, it evicts the answer that was read least recently:
// asking again is cheap, growing is not.
type authCache[V any] struct {
	ttl     time.Duration
	answers *cache.LRUExpireCache
}

func newAuthCache[V any](ttl time.Duration) *authCache[V] {
	return &authCache[V]{ttl: ttl, answers: cache.NewLRUExpireCache(maxCached)}
}

func (m *authCache[V]) get(key cacheKey) (answer V, found bool) {
	cached, found := m.answers.Get(key)
	if found {
		answer = cached.(V)
	}
	return answer, found
}

func (m *authCache[V]) add(key cacheKey, answer V) { m.answers.Add(key, answer, m.ttl) }

package httpapi

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
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

// An authCache caches a bounded number of answers for a short time.
type authCache[V any] struct {
	now func() time.Time
	ttl time.Duration

	mu      sync.Mutex
	entries map[cacheKey]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value   V
	expires time.Time
}

func newAuthCache[V any](ttl time.Duration) *authCache[V] {
	return &authCache[V]{now: time.Now, ttl: ttl, entries: map[cacheKey]cacheEntry[V]{}}
}

func (m *authCache[V]) get(key cacheKey) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, ok := m.entries[key]
	if !ok || !m.now().Before(entry.expires) {
		var zero V
		return zero, false
	}
	return entry.value, true
}

func (m *authCache[V]) add(key cacheKey, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.entries) >= maxCached {
		m.evict()
	}
	m.entries[key] = cacheEntry[V]{value, m.now().Add(m.ttl)}
}

// evict drops expired entries, and all others if that is not enough: asking again is cheap, growing is not.
func (m *authCache[V]) evict() {
	now := m.now()
	for key, entry := range m.entries {
		if !now.Before(entry.expires) {
			delete(m.entries, key)
		}
	}
	if len(m.entries) >= maxCached {
		clear(m.entries)
	}
}

package link

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// A deleted pod may stay trusted this long; a pod that was denied too early is denied this long.
	acceptedTTL, deniedTTL = 10 * time.Second, 2 * time.Second
	maxCacheEntries        = 4096
)

type cachedReview struct {
	identity Identity
	err      error
	expires  time.Time
}

// tokenCache remembers a bounded number of reviews for a short time. Denials are kept separately: strangers can cause any number
// of them, and must not evict other answers.
type tokenCache struct {
	now func() time.Time

	mu                             sync.Mutex
	acceptedReviews, deniedReviews map[[sha256.Size]byte]cachedReview
}

func newTokenCache(now func() time.Time) *tokenCache {
	return &tokenCache{now: now, acceptedReviews: map[[sha256.Size]byte]cachedReview{}, deniedReviews: map[[sha256.Size]byte]cachedReview{}}
}

func (a *tokenCache) get(key [sha256.Size]byte) (cachedReview, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cached, ok := a.acceptedReviews[key]
	if !ok {
		cached, ok = a.deniedReviews[key]
	}
	return cached, ok && a.now().Before(cached.expires)
}

// put replaces what was known about a token.
func (a *tokenCache) put(key [sha256.Size]byte, review cachedReview) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.acceptedReviews, key)
	reviews, ttl := a.acceptedReviews, acceptedTTL
	if review.err != nil {
		reviews, ttl = a.deniedReviews, deniedTTL
	}
	review.expires = a.now().Add(ttl)
	if len(reviews) >= maxCacheEntries {
		a.evict(reviews)
	}
	reviews[key] = review
}

// evict drops expired answers, and all others if that is not enough: asking again is cheap, growing is not.
func (a *tokenCache) evict(reviews map[[sha256.Size]byte]cachedReview) {
	now := a.now()
	for key, cached := range reviews {
		if !now.Before(cached.expires) {
			delete(reviews, key)
		}
	}
	if len(reviews) >= maxCacheEntries {
		clear(reviews)
	}
}

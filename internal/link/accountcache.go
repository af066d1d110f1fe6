package link

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// An accountKey is a service account as named in tokens and reviews.
type accountKey struct{ username, uid string }

// accountCache remembers which service accounts the API server has recently vouched for.
type accountCache struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[accountKey]*accountEntry
}

// An accountEntry is what is known about one account.
type accountEntry struct {
	reviewLock chan struct{} // held while the API server is asked
	validUntil time.Time
}

func newAccountCache(now func() time.Time) *accountCache {
	return &accountCache{now: now, entries: map[accountKey]*accountEntry{}}
}

// markValid records that a review, requested at the given time, has found the account.
func (a *accountCache) markValid(key accountKey, requestedAt time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry := a.getOrCreate(key)
	if validUntil := requestedAt.Add(acceptedTTL); validUntil.After(entry.validUntil) {
		entry.validUntil = validUntil
	}
}

func (a *accountCache) isValid(key accountKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry := a.entries[key]
	return entry != nil && a.now().Before(entry.validUntil)
}

// acquire waits until no other goroutine is asking the API server about the account.
func (a *accountCache) acquire(ctx context.Context, key accountKey) (release func(), err error) {
	a.mu.Lock()
	lock := a.getOrCreate(key).reviewLock
	a.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the review of another token of %s: %w", key.username, ctx.Err())
	}
}

func (a *accountCache) getOrCreate(key accountKey) *accountEntry {
	entry := a.entries[key]
	if entry == nil {
		a.evict()
		entry = &accountEntry{reviewLock: make(chan struct{}, 1)}
		a.entries[key] = entry
	}
	return entry
}

// evict drops expired entries. Only accounts with a verified token get here, so there are no more entries than accounts
// exist; forgetting one costs a review.
func (a *accountCache) evict() {
	if len(a.entries) < maxCacheEntries {
		return
	}
	now := a.now()
	for key, entry := range a.entries {
		if !now.Before(entry.validUntil) {
			delete(a.entries, key)
		}
	}
	if len(a.entries) >= maxCacheEntries {
		clear(a.entries)
	}
}

package kit

import "time"

// ExpiringMap is a map whose entries expire: each is kept for at least MinTTL after it was put, and for at most twice as long. It holds two
// generations and drops the older one as a whole, so that the cost of an operation does not depend on the number of entries. It is not safe
// for concurrent use.
type ExpiringMap[K comparable, V any] struct {
	MinTTL time.Duration

	newer, older map[K]V
	newerSince   time.Time // of the newer generation
}

// Put stores a value.
func (r *ExpiringMap[K, V]) Put(key K, value V) {
	r.rotate(time.Now())
	if r.newer == nil {
		r.newer = map[K]V{}
	}
	delete(r.older, key)
	r.newer[key] = value
}

// Get returns a stored value that has not expired.
func (r *ExpiringMap[K, V]) Get(key K) (V, bool) {
	r.rotate(time.Now())
	if value, found := r.newer[key]; found {
		return value, true
	}
	value, found := r.older[key]
	return value, found
}

// Delete removes a value.
func (r *ExpiringMap[K, V]) Delete(key K) {
	delete(r.newer, key)
	delete(r.older, key)
}

// rotate starts a new generation when the current one is old enough.
func (r *ExpiringMap[K, V]) rotate(now time.Time) {
	switch age := now.Sub(r.newerSince); {
	case age < r.MinTTL:
		return
	case age < 2*r.MinTTL:
		r.older = r.newer
	default:
		r.older = nil
	}
	r.newer, r.newerSince = nil, now
}

package kit

import "time"

// ExpiringMap is a map whose entries are forgotten: each is kept for at least MinTTL after it was put, and for at most twice as long. It
// holds two generations and drops the older one as a whole, so remembering costs the same however many entries there are. It is not safe
// for concurrent use.
type ExpiringMap[K comparable, V any] struct {
	MinTTL time.Duration

	newer, older map[K]V
	newerSince   time.Time // of the newer generation
}

// Put remembers a value.
func (r *ExpiringMap[K, V]) Put(key K, value V) {
	r.rotate(time.Now())
	if r.newer == nil {
		r.newer = map[K]V{}
	}
	delete(r.older, key)
	r.newer[key] = value
}

// Get returns a value that is remembered.
func (r *ExpiringMap[K, V]) Get(key K) (V, bool) {
	r.rotate(time.Now())
	if value, found := r.newer[key]; found {
		return value, true
	}
	value, found := r.older[key]
	return value, found
}

// Delete forgets a value before its time.
func (r *ExpiringMap[K, V]) Delete(key K) {
	delete(r.newer, key)
	delete(r.older, key)
}

// rotate begins another generation when the present one is old enough.
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

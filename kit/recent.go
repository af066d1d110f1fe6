package kit

import "time"

// Recent is a map whose entries are forgotten: each is kept for at least Keep after it was put, and for at most twice as long. It holds two
// generations and drops the older one as a whole, so remembering costs the same however many entries there are. It is not safe for
// concurrent use.
type Recent[K comparable, V any] struct {
	Keep time.Duration

	newer, older map[K]V
	began        time.Time // of the newer generation
}

// Put remembers a value.
func (r *Recent[K, V]) Put(key K, value V) {
	r.turn(time.Now())
	if r.newer == nil {
		r.newer = map[K]V{}
	}
	delete(r.older, key)
	r.newer[key] = value
}

// Get returns a value that is remembered.
func (r *Recent[K, V]) Get(key K) (V, bool) {
	r.turn(time.Now())
	if value, known := r.newer[key]; known {
		return value, true
	}
	value, known := r.older[key]
	return value, known
}

// Delete forgets a value before its time.
func (r *Recent[K, V]) Delete(key K) {
	delete(r.newer, key)
	delete(r.older, key)
}

// turn begins another generation when the present one is old enough.
func (r *Recent[K, V]) turn(now time.Time) {
	switch age := now.Sub(r.began); {
	case age < r.Keep:
		return
	case age < 2*r.Keep:
		r.older = r.newer
	default:
		r.older = nil
	}
	r.newer, r.began = nil, now
}

package httpapi

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

const (
	// trustFor is how long a revoked token or right may still be accepted, and distrustFor how long a new one may be rejected.
	trustFor, distrustFor = 10 * time.Second, 2 * time.Second
	mostKept              = 4096
)

// A fingerprint is the key of an answer, so that neither tokens nor long names are stored.
type fingerprint [sha256.Size]byte

func fingerprintOf(parts ...string) fingerprint {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part) // with its length, so that different parts cannot have the same hash
	}
	return fingerprint(hash.Sum(nil))
}

// A memory caches a bounded number of answers for a short time.
type memory[V any] struct {
	now      func() time.Time
	lifetime time.Duration

	mu    sync.Mutex
	known map[fingerprint]kept[V]
}

type kept[V any] struct {
	value V
	until time.Time
}

func newMemory[V any](lifetime time.Duration) *memory[V] {
	return &memory[V]{now: time.Now, lifetime: lifetime, known: map[fingerprint]kept[V]{}}
}

func (m *memory[V]) recall(key fingerprint) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, known := m.known[key]
	if !known || !m.now().Before(found.until) {
		var none V
		return none, false
	}
	return found.value, true
}

func (m *memory[V]) keep(key fingerprint, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= mostKept {
		m.makeRoom()
	}
	m.known[key] = kept[V]{value, m.now().Add(m.lifetime)}
}

// makeRoom drops expired entries, and all others if that is not enough: asking again is cheap, growing is not.
func (m *memory[V]) makeRoom() {
	now := m.now()
	for key, found := range m.known {
		if !now.Before(found.until) {
			delete(m.known, key)
		}
	}
	if len(m.known) >= mostKept {
		clear(m.known)
	}
}

package link

import "sync"

// A namespaceByteLimiter bounds the total size of the assignments that wait for the agents of each namespace. A nil one is unlimited.
type namespaceByteLimiter struct {
	maxBytes int

	mu    sync.Mutex
	bytes map[string]int
}

func newNamespaceByteLimiter(maxBytes int) *namespaceByteLimiter {
	return &namespaceByteLimiter{maxBytes: maxBytes, bytes: map[string]int{}}
}

// add reports whether there was room.
func (w *namespaceByteLimiter) add(namespace string, size int) bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes[namespace]+size > w.maxBytes {
		return false
	}
	w.bytes[namespace] += size
	return true
}

func (w *namespaceByteLimiter) remove(namespace string, size int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes[namespace] -= size; w.bytes[namespace] == 0 {
		delete(w.bytes, namespace)
	}
}

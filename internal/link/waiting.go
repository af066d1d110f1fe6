package link

import "sync"

// A waitingSum bounds the total size of the assignments that wait for the agents of each namespace. A nil one is unlimited.
type waitingSum struct {
	most int

	mu    sync.Mutex
	bytes map[string]int
}

func newWaitingSum(most int) *waitingSum { return &waitingSum{most: most, bytes: map[string]int{}} }

// add reports whether there was room.
func (w *waitingSum) add(namespace string, size int) bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes[namespace]+size > w.most {
		return false
	}
	w.bytes[namespace] += size
	return true
}

func (w *waitingSum) remove(namespace string, size int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes[namespace] -= size; w.bytes[namespace] == 0 {
		delete(w.bytes, namespace)
	}
}

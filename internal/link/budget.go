package link

import "sync"

// A memoryBudget is memory shared by holders. A holder may have no more than what stays free for all others. So one that takes all
// it can gets half, and when n holders do so, 1/(n+1) is still free. No holder waits for another.
type memoryBudget struct {
	limit int

	mu               sync.Mutex
	total            int
	reservedByHolder map[string]int
}

func newMemoryBudget(limit int) *memoryBudget {
	return &memoryBudget{limit: limit, reservedByHolder: map[string]int{}}
}

// reserve reports whether there was room.
func (b *memoryBudget) reserve(holder string, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reservedByHolder[holder]+size > b.limit-b.total-size {
		return false
	}
	b.reservedByHolder[holder] += size
	b.total += size
	return true
}

func (b *memoryBudget) release(holder string, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= size
	if b.reservedByHolder[holder] -= size; b.reservedByHolder[holder] == 0 {
		delete(b.reservedByHolder, holder)
	}
}

// A memoryReservation is the part of its holder's budget that one stream takes, or one connection without a stream. A nil reservation is
// unlimited.
type memoryReservation struct {
	budget *memoryBudget
	holder string

	mu       sync.Mutex
	bytes    int
	released bool
}

// forNamespace and forSource use different prefixes, so that a name never collides with an address.
func (b *memoryBudget) forNamespace(name string) *memoryReservation {
	return &memoryReservation{budget: b, holder: "namespace/" + name}
}

func (b *memoryBudget) forSource(address string) *memoryReservation {
	return &memoryReservation{budget: b, holder: "address/" + address}
}

// reserve reports whether there was room.
func (a *memoryReservation) reserve(size int) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.released || !a.budget.reserve(a.holder, size) {
		return false
	}
	a.bytes += size
	return true
}

func (a *memoryReservation) release(size int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.released {
		a.bytes -= size
		a.budget.release(a.holder, size)
	}
}

// releaseAll gives everything back. Nothing can be taken after that.
func (a *memoryReservation) releaseAll() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.released {
		a.released = true
		a.budget.release(a.holder, a.bytes)
	}
}

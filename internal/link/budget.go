package link

import "sync"

// A budget is memory shared by holders. A holder may have no more than what stays free for all others. So one that takes all
// it can gets half, and when n holders do so, 1/(n+1) is still free. No holder waits for another.
type budget struct {
	most int

	mu   sync.Mutex
	sum  int
	held map[string]int
}

func newBudget(most int) *budget { return &budget{most: most, held: map[string]int{}} }

// take reports whether there was room.
func (b *budget) take(holder string, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[holder]+size > b.most-b.sum-size {
		return false
	}
	b.held[holder] += size
	b.sum += size
	return true
}

func (b *budget) give(holder string, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum -= size
	if b.held[holder] -= size; b.held[holder] == 0 {
		delete(b.held, holder)
	}
}

// An allowance is the part of its holder's budget that one stream takes, or one connection without a stream. A nil allowance is unlimited.
type allowance struct {
	budget *budget
	holder string

	mu    sync.Mutex
	bytes int
	over  bool
}

// forNamespace and forSource use different prefixes, so that a name never collides with an address.
func (b *budget) forNamespace(name string) *allowance {
	return &allowance{budget: b, holder: "namespace/" + name}
}

func (b *budget) forSource(address string) *allowance {
	return &allowance{budget: b, holder: "address/" + address}
}

// take reports whether there was room.
func (a *allowance) take(size int) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || !a.budget.take(a.holder, size) {
		return false
	}
	a.bytes += size
	return true
}

func (a *allowance) give(size int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.bytes -= size
		a.budget.give(a.holder, size)
	}
}

// release gives everything back. Nothing can be taken after that.
func (a *allowance) release() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.over = true
		a.budget.give(a.holder, a.bytes)
	}
}

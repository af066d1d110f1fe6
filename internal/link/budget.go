package link

import "sync"

// A budget is memory that holders share. A holder may have no more than it leaves free for all others. So one that takes all it can has
// half, and while n of them do, one part in n+1 is still free. No holder waits for another.
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

// An allowance is what one stream, or one connection that has none yet, takes of the budget of its holder. A nil one bounds nothing.
type allowance struct {
	budget *budget
	holder string

	mu    sync.Mutex
	bytes int
	over  bool
}

// forNamespace and forSource keep names and addresses apart.
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

// release gives everything back. Nothing can be taken any more.
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

package ack

import (
	"context"
	"slices"
	"sync"
)

// fairLimiter limits the requests in progress, in total and per namespace. A free slot goes to the namespace with the fewest slots, and
// among equals to the one that has waited longest. A namespace with one worker therefore waits for at most one request, however many
// unresponsive workers other namespaces have.
type fairLimiter struct {
	mu         sync.Mutex
	free       int
	lastWaiter int                        // of the last waiter
	namespaces map[string]*namespaceQueue // those that have slots or wait for some
}

type namespaceQueue struct {
	inFlight int
	waiters  []*waiter // in order
}

type waiter struct {
	number int
	ready  chan struct{} // closed when a slot is granted
}

func newFairLimiter(limit int) *fairLimiter {
	return &fairLimiter{free: limit, namespaces: map[string]*namespaceQueue{}}
}

// acquire waits for a slot.
func (l *fairLimiter) acquire(ctx context.Context, namespace string) error {
	ticket := l.enqueue(namespace)
	select {
	case <-ticket.ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.namespaces[namespace]
	if at := slices.Index(queue.waiters, ticket); at >= 0 {
		queue.waiters = slices.Delete(queue.waiters, at, at+1)
		l.removeIdleLocked(namespace)
	} else {
		l.releaseLocked(namespace) // a slot was granted at the same moment
	}
	return ctx.Err()
}

func (l *fairLimiter) enqueue(namespace string) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastWaiter++
	ticket := &waiter{l.lastWaiter, make(chan struct{})}
	if l.namespaces[namespace] == nil {
		l.namespaces[namespace] = &namespaceQueue{}
	}
	queue := l.namespaces[namespace]
	queue.waiters = append(queue.waiters, ticket)
	l.grantLocked()
	return ticket
}

// release releases a slot of a namespace.
func (l *fairLimiter) release(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(namespace)
}

// releaseLocked must be called with the lock held, as must all functions below.
func (l *fairLimiter) releaseLocked(namespace string) {
	l.namespaces[namespace].inFlight--
	l.free++
	l.grantLocked()
	l.removeIdleLocked(namespace)
}

// grantLocked gives free slots to waiters.
func (l *fairLimiter) grantLocked() {
	for l.free > 0 {
		next := l.nextLocked()
		if next == nil {
			return
		}
		l.free--
		next.inFlight++
		close(next.waiters[0].ready)
		next.waiters = next.waiters[1:]
	}
}

// nextLocked returns the namespace that gets the next slot, or nil.
func (l *fairLimiter) nextLocked() (next *namespaceQueue) {
	for _, queue := range l.namespaces {
		if len(queue.waiters) == 0 || queue.inFlight >= maxRequestsPerNamespace {
			continue
		}
		if next == nil || queue.inFlight < next.inFlight || queue.inFlight == next.inFlight && queue.waiters[0].number < next.waiters[0].number {
			next = queue
		}
	}
	return next
}

// removeIdleLocked removes a namespace without slots and waiters.
func (l *fairLimiter) removeIdleLocked(namespace string) {
	if queue := l.namespaces[namespace]; queue.inFlight == 0 && len(queue.waiters) == 0 {
		delete(l.namespaces, namespace)
	}
}

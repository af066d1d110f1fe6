package ack

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// fairLimiter limits the requests in progress, in total and per namespace. A free slot goes to the namespace with the fewest slots, and
// there to the pool with the fewest; equals take turns. As long as there are slots for all of them, a namespace or pool with one worker
// therefore waits for at most one request, however many unresponsive workers others have.
type fairLimiter struct {
	mu         sync.Mutex
	free       int
	turns      int
	namespaces map[string]*namespaceQueue // those that have slots or wait for some
}

type namespaceQueue struct {
	share
	pools map[string]*poolQueue // those that have slots or wait for some
}

type poolQueue struct {
	share
	waiters []chan struct{} // in order; each is closed when a slot is granted
}

// share is what a namespace or a pool has got.
type share struct {
	inFlight int
	lastTurn int // when it last got a slot, or began to wait for its first one
}

// isBefore reports whether it gets the next slot rather than another.
func (s share) isBefore(other share) bool {
	return s.inFlight < other.inFlight || s.inFlight == other.inFlight && s.lastTurn < other.lastTurn
}

func newFairLimiter(limit int) *fairLimiter {
	return &fairLimiter{free: limit, namespaces: map[string]*namespaceQueue{}}
}

// acquire waits for a slot.
func (l *fairLimiter) acquire(ctx context.Context, pool types.NamespacedName) error {
	ready := l.enqueue(pool)
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.namespaces[pool.Namespace].pools[pool.Name]
	if at := slices.Index(queue.waiters, ready); at >= 0 {
		queue.waiters = slices.Delete(queue.waiters, at, at+1)
		l.removeIdleLocked(pool)
	} else {
		l.releaseLocked(pool) // a slot was granted at the same moment
	}
	return ctx.Err()
}

func (l *fairLimiter) enqueue(pool types.NamespacedName) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	namespace := l.namespaces[pool.Namespace]
	if namespace == nil {
		namespace = &namespaceQueue{share: l.newShareLocked(), pools: map[string]*poolQueue{}}
		l.namespaces[pool.Namespace] = namespace
	}
	queue := namespace.pools[pool.Name]
	if queue == nil {
		queue = &poolQueue{share: l.newShareLocked()}
		namespace.pools[pool.Name] = queue
	}
	ready := make(chan struct{})
	queue.waiters = append(queue.waiters, ready)
	l.grantLocked()
	return ready
}

// release releases a slot of a pool.
func (l *fairLimiter) release(pool types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(pool)
}

// releaseLocked must be called with the lock held, as must all functions below.
func (l *fairLimiter) releaseLocked(pool types.NamespacedName) {
	namespace := l.namespaces[pool.Namespace]
	namespace.inFlight--
	namespace.pools[pool.Name].inFlight--
	l.free++
	l.grantLocked()
	l.removeIdleLocked(pool)
}

// newShareLocked returns the share of those that begin to wait: their turn is after all others.
func (l *fairLimiter) newShareLocked() share {
	l.turns++
	return share{lastTurn: l.turns}
}

// grantLocked gives free slots to waiters.
func (l *fairLimiter) grantLocked() {
	for l.free > 0 {
		namespace, pool := l.nextLocked()
		if pool == nil {
			return
		}
		l.free--
		l.turns++
		namespace.inFlight, namespace.lastTurn = namespace.inFlight+1, l.turns
		pool.inFlight, pool.lastTurn = pool.inFlight+1, l.turns
		close(pool.waiters[0])
		pool.waiters = pool.waiters[1:]
	}
}

// nextLocked returns the namespace and the pool that get the next slot, or nil.
func (l *fairLimiter) nextLocked() (next *namespaceQueue, nextPool *poolQueue) {
	for _, namespace := range l.namespaces {
		pool := namespace.next()
		if pool == nil || namespace.inFlight >= maxRequestsPerNamespace {
			continue
		}
		if next == nil || namespace.isBefore(next.share) {
			next, nextPool = namespace, pool
		}
	}
	return next, nextPool
}

// next returns the pool that gets the next slot of the namespace, or nil.
func (q *namespaceQueue) next() (next *poolQueue) {
	for _, pool := range q.pools {
		if len(pool.waiters) > 0 && (next == nil || pool.isBefore(next.share)) {
			next = pool
		}
	}
	return next
}

// removeIdleLocked removes a pool, and a namespace, without slots and waiters.
func (l *fairLimiter) removeIdleLocked(pool types.NamespacedName) {
	namespace := l.namespaces[pool.Namespace]
	if queue := namespace.pools[pool.Name]; queue.inFlight == 0 && len(queue.waiters) == 0 {
		delete(namespace.pools, pool.Name)
	}
	if len(namespace.pools) == 0 {
		delete(l.namespaces, pool.Namespace)
	}
}

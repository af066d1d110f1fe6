package acknowledge

import (
	"context"
	"slices"
	"sync"
)

// slots limits the requests in progress, in total and per namespace. A free slot goes to the namespace with the fewest slots, and among
// equals to the one that has waited longest. A namespace with one worker therefore waits for at most one request, however many
// unresponsive workers other namespaces have.
type slots struct {
	mu         sync.Mutex
	free       int
	number     int                 // of the last waiter
	namespaces map[string]*tenancy // those that have slots or wait for some
}

type tenancy struct {
	held    int
	waiting []*waiter // in order
}

type waiter struct {
	number int
	ready  chan struct{} // closed when a slot is granted
}

func newSlots(most int) *slots { return &slots{free: most, namespaces: map[string]*tenancy{}} }

// take waits for a slot.
func (s *slots) take(ctx context.Context, namespace string) error {
	own := s.wait(namespace)
	select {
	case <-own.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.namespaces[namespace]
	if at := slices.Index(of.waiting, own); at >= 0 {
		of.waiting = slices.Delete(of.waiting, at, at+1)
		s.tidy(namespace)
	} else {
		s.release(namespace) // a slot was granted at the same moment
	}
	return ctx.Err()
}

func (s *slots) wait(namespace string) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	own := &waiter{s.number, make(chan struct{})}
	if s.namespaces[namespace] == nil {
		s.namespaces[namespace] = &tenancy{}
	}
	of := s.namespaces[namespace]
	of.waiting = append(of.waiting, own)
	s.grant()
	return own
}

// giveBack releases a slot of a namespace.
func (s *slots) giveBack(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(namespace)
}

// release must be called with the lock held, as must all functions below.
func (s *slots) release(namespace string) {
	s.namespaces[namespace].held--
	s.free++
	s.grant()
	s.tidy(namespace)
}

// grant gives free slots to waiters.
func (s *slots) grant() {
	for s.free > 0 {
		next := s.next()
		if next == nil {
			return
		}
		s.free--
		next.held++
		close(next.waiting[0].ready)
		next.waiting = next.waiting[1:]
	}
}

// next returns the namespace that gets the next slot, or nil.
func (s *slots) next() (next *tenancy) {
	for _, of := range s.namespaces {
		if len(of.waiting) == 0 || of.held >= mostOfOne {
			continue
		}
		if next == nil || of.held < next.held || of.held == next.held && of.waiting[0].number < next.waiting[0].number {
			next = of
		}
	}
	return next
}

// tidy removes a namespace without slots and waiters.
func (s *slots) tidy(namespace string) {
	if of := s.namespaces[namespace]; of.held == 0 && len(of.waiting) == 0 {
		delete(s.namespaces, namespace)
	}
}

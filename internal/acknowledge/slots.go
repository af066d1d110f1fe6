package acknowledge

import (
	"context"
	"slices"
	"sync"
)

// slots are what questions need while they are under way: a bounded number in all and of one namespace. A slot that gets free goes to the
// namespace that has the fewest, and among those to the one that has waited for the longest time. So a namespace with one worker waits for
// one answer at most, however many others have workers that do not answer.
type slots struct {
	mu         sync.Mutex
	free       int
	number     int                 // of the last one that began to wait
	namespaces map[string]*tenancy // those that have slots, or wait for some
}

type tenancy struct {
	held    int
	waiting []*waiter // in order
}

type waiter struct {
	number int
	ready  chan struct{} // closed when it has a slot
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
		s.release(namespace) // it got one at the same moment
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

// giveBack frees a slot of a namespace.
func (s *slots) giveBack(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(namespace)
}

// release is called with the lock held, as all that follows.
func (s *slots) release(namespace string) {
	s.namespaces[namespace].held--
	s.free++
	s.grant()
	s.tidy(namespace)
}

// grant gives the free slots to those that wait.
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

// next is the namespace that gets the next slot, nil for none.
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

// tidy forgets a namespace that has nothing and waits for nothing.
func (s *slots) tidy(namespace string) {
	if of := s.namespaces[namespace]; of.held == 0 && len(of.waiting) == 0 {
		delete(s.namespaces, namespace)
	}
}

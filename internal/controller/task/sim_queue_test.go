package task

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A queue behaves like controller-runtime's: it has at most one entry per object, the earliest requested, and an object in progress is
// returned again only when that is done.
type queue struct {
	mu         sync.Mutex
	due        map[types.NamespacedName]time.Time
	processing map[types.NamespacedName]bool
	failed     map[types.NamespacedName]int
	wake       chan struct{}
}

func newQueue() *queue {
	return &queue{due: map[types.NamespacedName]time.Time{}, processing: map[types.NamespacedName]bool{},
		failed: map[types.NamespacedName]int{}, wake: make(chan struct{}, 1)}
}

// After implements dispatch.Trigger.
func (q *queue) After(name types.NamespacedName, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(max(delay, 0))
	if known, waits := q.due[name]; !waits || at.Before(known) {
		q.due[name] = at
	}
	q.notify()
}

func (q *queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// retry adds an object with an increasing delay.
func (q *queue) retry(name types.NamespacedName) {
	q.mu.Lock()
	q.failed[name]++
	delay := min(5*time.Millisecond<<min(q.failed[name], 14), time.Minute)
	q.mu.Unlock()
	q.After(name, delay)
}

func (q *queue) done(name types.NamespacedName, forget bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.processing, name)
	if forget {
		delete(q.failed, name)
	}
	q.notify()
}

// get waits for the next object; false if the context ends.
func (q *queue) get(ctx context.Context) (types.NamespacedName, bool) {
	for {
		name, wait := q.popDue()
		if name.Name != "" {
			return name, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return types.NamespacedName{}, false
		case <-q.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (q *queue) popDue() (types.NamespacedName, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var first types.NamespacedName
	for name, at := range q.due {
		if !q.processing[name] && (first.Name == "" || at.Before(q.due[first]) || at.Equal(q.due[first]) && name.Name < first.Name) {
			first = name
		}
	}
	if first.Name == "" {
		return first, time.Hour
	}
	if wait := time.Until(q.due[first]); wait > 0 {
		return types.NamespacedName{}, wait
	}
	delete(q.due, first)
	q.processing[first] = true
	return first, 0
}

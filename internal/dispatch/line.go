package dispatch

import (
	"cmp"
	"container/heap"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// A line holds the tasks of a namespace that wait for room, the oldest first. There may be very many: only a task's name and
// a few numbers are kept.
type line struct {
	waiting waiters
	byName  map[string]*waiter
}

// A waiter is a task in a line.
type waiter struct {
	name    string
	created int64 // in ns since 1970, like told
	bytes   int64
	told    int64 // when the task's wait is reported
	limit   limit.Limit
	place   int
}

func (l *line) add(joined *waiter) {
	if l.byName == nil {
		l.byName = map[string]*waiter{}
	}
	l.byName[joined.name] = joined
	heap.Push(&l.waiting, joined)
}

func (l *line) remove(name string) {
	if known := l.byName[name]; known != nil {
		heap.Remove(&l.waiting, known.place)
		delete(l.byName, name)
	}
}

// next removes the oldest task.
func (l *line) next() *waiter {
	first := heap.Pop(&l.waiting).(*waiter)
	delete(l.byName, first.name)
	return first
}

// waiters implement heap.Interface.
type waiters []*waiter

func (w waiters) Len() int { return len(w) }

func (w waiters) Less(x, y int) bool {
	return cmp.Or(cmp.Compare(w[x].created, w[y].created), cmp.Compare(w[x].name, w[y].name)) < 0
}

func (w waiters) Swap(x, y int) {
	w[x], w[y] = w[y], w[x]
	w[x].place, w[y].place = x, y
}

// Push implements heap.Interface.
func (w *waiters) Push(joined any) {
	made := joined.(*waiter)
	made.place = len(*w)
	*w = append(*w, made)
}

// Pop implements heap.Interface.
func (w *waiters) Pop() any {
	all := *w
	last := all[len(all)-1]
	all[len(all)-1] = nil
	*w = all[:len(all)-1]
	return last
}

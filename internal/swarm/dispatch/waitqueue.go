package dispatch

import (
	"cmp"
	"container/heap"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// A waitQueue holds the tasks of a namespace that wait for room, the oldest first. There may be very many: only a task's name and
// a few numbers are kept.
type waitQueue struct {
	heap   waitHeap
	byName map[string]*waitingTask
}

// A waitingTask is a task in a line.
type waitingTask struct {
	name     string
	created  int64 // in ns since 1970, like told
	bytes    int64
	reportAt int64 // when the task's wait is reported
	limit    limit.Limit
	index    int
}

func (q *waitQueue) add(waiting *waitingTask) {
	if q.byName == nil {
		q.byName = map[string]*waitingTask{}
	}
	q.byName[waiting.name] = waiting
	heap.Push(&q.heap, waiting)
}

func (q *waitQueue) remove(name string) {
	if existing := q.byName[name]; existing != nil {
		heap.Remove(&q.heap, existing.index)
		delete(q.byName, name)
	}
}

// next removes the oldest task.
func (q *waitQueue) next() *waitingTask {
	first := heap.Pop(&q.heap).(*waitingTask)
	delete(q.byName, first.name)
	return first
}

// waitHeap implement heap.Interface.
type waitHeap []*waitingTask

func (h waitHeap) Len() int { return len(h) }

func (h waitHeap) Less(x, y int) bool {
	return cmp.Or(cmp.Compare(h[x].created, h[y].created), cmp.Compare(h[x].name, h[y].name)) < 0
}

func (h waitHeap) Swap(x, y int) {
	h[x], h[y] = h[y], h[x]
	h[x].index, h[y].index = x, y
}

// Push implements heap.Interface.
func (h *waitHeap) Push(joined any) {
	waiting := joined.(*waitingTask)
	waiting.index = len(*h)
	*h = append(*h, waiting)
}

// Pop implements heap.Interface.
func (h *waitHeap) Pop() any {
	items := *h
	last := items[len(items)-1]
	items[len(items)-1] = nil
	*h = items[:len(items)-1]
	return last
}

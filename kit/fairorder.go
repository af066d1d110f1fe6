package kit

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fairOrder holds the due keys of a fairQueue in order: by priority, and within one priority in turns between namespaces. It implements
// client-go's workqueue.Queue, whose user does the locking.
type fairOrder struct {
	workers    int
	namespaces *activeNamespaces

	busyWorkers     int                       // workers that have a key
	busyByNamespace map[string]int            // the same by namespace
	priorities      map[reconcile.Request]int // the priorities of all keys that are due, including those that a worker has
	positions       map[reconcile.Request]position
	levels          []*priorityLevel // the highest priority first
	lastPriority    int              // of the key that was handed out last
}

// A priorityLevel holds the keys of one priority.
type priorityLevel struct {
	priority int
	flows    map[string]*list.Element // by namespace
	order    list.List                // of flows: the next to get a turn comes first
}

// A flow holds the keys of one namespace at one priority level. It is never empty.
type flow struct {
	namespace string
	keys      list.List
}

// A position is where a key waits.
type position struct {
	level   *priorityLevel
	element *list.Element
}

func newFairOrder(workers int, namespaces *activeNamespaces) *fairOrder {
	return &fairOrder{
		workers: workers, namespaces: namespaces, busyByNamespace: map[string]int{}, priorities: map[reconcile.Request]int{},
		positions: map[reconcile.Request]position{},
	}
}

// raisePriority records the minimum priority of a key that is about to be added.
func (t *fairOrder) raisePriority(key reconcile.Request, priority int) {
	if current, found := t.priorities[key]; !found || priority > current {
		t.priorities[key] = priority
	}
}

// isDue reports whether a key is due.
func (t *fairOrder) isDue(key reconcile.Request) bool {
	_, found := t.priorities[key]
	return found
}

// Push implements workqueue.Queue.
func (t *fairOrder) Push(key reconcile.Request) {
	level := t.level(t.priorities[key])
	element := level.flows[key.Namespace]
	if element == nil {
		element = level.order.PushBack(&flow{namespace: key.Namespace})
		level.flows[key.Namespace] = element
	}
	t.positions[key] = position{level, element.Value.(*flow).keys.PushBack(key)}
}

// Touch implements workqueue.Queue: a key that is added again with a higher priority moves to the end of that priority level.
func (t *fairOrder) Touch(key reconcile.Request) {
	if t.priorities[key] > t.positions[key].level.priority {
		t.remove(key)
		t.Push(key)
	}
}

// Len implements workqueue.Queue.
func (t *fairOrder) Len() int { return len(t.positions) }

// Pop implements workqueue.Queue. Call it only when a key may be handed out.
func (t *fairOrder) Pop() reconcile.Request {
	level, element := t.nextFlow()
	key := element.Value.(*flow).keys.Front().Value.(reconcile.Request)
	level.order.MoveToBack(element)
	t.remove(key)
	t.lastPriority = level.priority
	delete(t.priorities, key)
	t.busyWorkers++
	t.busyByNamespace[key.Namespace]++
	return key
}

// done records that a worker is free again.
func (t *fairOrder) done(key reconcile.Request) {
	t.busyWorkers--
	if t.busyByNamespace[key.Namespace]--; t.busyByNamespace[key.Namespace] == 0 {
		delete(t.busyByNamespace, key.Namespace)
	}
}

func (t *fairOrder) hasNext() bool {
	_, element := t.nextFlow()
	return element != nil
}

// nextFlow returns the flow whose turn it is, or nil when none may have a worker. It skips flows that may not: workers have keys of each of
// these, so there are not many.
func (t *fairOrder) nextFlow() (*priorityLevel, *list.Element) {
	for _, level := range t.levels {
		for element := level.order.Front(); element != nil; element = element.Next() {
			if t.mayRun(element.Value.(*flow).namespace) {
				return level, element
			}
		}
	}
	return nil, nil
}

// mayRun reports whether a free worker may take a key of the namespace.
func (t *fairOrder) mayRun(namespace string) bool {
	return t.busyByNamespace[namespace] == 0 || t.busyWorkers+1 < t.workers || !t.namespaces.hasOthers(namespace)
}

func (t *fairOrder) level(priority int) *priorityLevel {
	at, found := slices.BinarySearchFunc(t.levels, priority, func(level *priorityLevel, priority int) int {
		return cmp.Compare(priority, level.priority)
	})
	if !found {
		t.levels = slices.Insert(t.levels, at, &priorityLevel{priority: priority, flows: map[string]*list.Element{}})
	}
	return t.levels[at]
}

// remove removes a key, and the flow and level that become empty.
func (t *fairOrder) remove(key reconcile.Request) {
	pos := t.positions[key]
	delete(t.positions, key)
	element := pos.level.flows[key.Namespace]
	keys := &element.Value.(*flow).keys
	if keys.Remove(pos.element); keys.Len() > 0 {
		return
	}
	pos.level.order.Remove(element)
	delete(pos.level.flows, key.Namespace)
	if pos.level.order.Len() == 0 {
		t.levels = slices.DeleteFunc(t.levels, func(level *priorityLevel) bool { return level == pos.level })
	}
}

// activeNamespaces holds the namespaces whose objects a controller reconciles. Namespaces whose objects it skips do not count.
type activeNamespaces struct {
	mu    sync.Mutex
	first string
	count int // 2 stands for more as well
}

// add records a namespace. Cluster-scoped objects have none.
func (t *activeNamespaces) add(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.count == 0:
		t.first, t.count = namespace, 1
	case t.count == 1 && namespace != t.first:
		t.count = 2
	}
}

// hasOthers reports whether there are namespaces other than this one, which may be "".
func (t *activeNamespaces) hasOthers(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count > 1 || t.count == 1 && t.first != namespace
}

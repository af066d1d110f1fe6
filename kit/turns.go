package kit

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns are the keys of a fairQueue that are due, in their order: by priority, and of one priority in turns between namespaces. They implement client-go's
// workqueue.Queue. Its user locks them.
type turns struct {
	workers int
	tenants *tenants

	busy     int                       // workers that have a key
	running  map[string]int            // likewise, by namespace
	wanted   map[reconcile.Request]int // the priorities of all keys that are due, including those that a worker has
	places   map[reconcile.Request]place
	bands    []*band // the highest priority first
	priority int     // of the key that was handed out last
}

// A band holds the keys of one priority.
type band struct {
	priority int
	flows    map[string]*list.Element // by namespace
	order    list.List                // of flows: the next one to get a turn first
}

// A flow holds the keys of one namespace in a band. It is never empty.
type flow struct {
	namespace string
	keys      list.List
}

// A place is where a key waits.
type place struct {
	band *band
	key  *list.Element
}

func newTurns(workers int, tenants *tenants) *turns {
	return &turns{
		workers: workers, tenants: tenants, running: map[string]int{}, wanted: map[reconcile.Request]int{}, places: map[reconcile.Request]place{},
	}
}

// want notes at least which priority a key has that is about to be added.
func (t *turns) want(key reconcile.Request, priority int) {
	if known, wanted := t.wanted[key]; !wanted || priority > known {
		t.wanted[key] = priority
	}
}

// isWanted reports whether a key is due.
func (t *turns) isWanted(key reconcile.Request) bool {
	_, wanted := t.wanted[key]
	return wanted
}

// Push implements workqueue.Queue.
func (t *turns) Push(key reconcile.Request) {
	into := t.band(t.wanted[key])
	at := into.flows[key.Namespace]
	if at == nil {
		at = into.order.PushBack(&flow{namespace: key.Namespace})
		into.flows[key.Namespace] = at
	}
	t.places[key] = place{into, at.Value.(*flow).keys.PushBack(key)}
}

// Touch implements workqueue.Queue: a key that is wanted with a higher priority goes to the end of that one's.
func (t *turns) Touch(key reconcile.Request) {
	if t.wanted[key] > t.places[key].band.priority {
		t.remove(key)
		t.Push(key)
	}
}

// Len implements workqueue.Queue.
func (t *turns) Len() int { return len(t.places) }

// Pop implements workqueue.Queue. Call it when there is a next one.
func (t *turns) Pop() reconcile.Request {
	from, at := t.next()
	key := at.Value.(*flow).keys.Front().Value.(reconcile.Request)
	from.order.MoveToBack(at)
	t.remove(key)
	t.priority = from.priority
	delete(t.wanted, key)
	t.busy++
	t.running[key.Namespace]++
	return key
}

// done takes note that a worker is free again.
func (t *turns) done(key reconcile.Request) {
	t.busy--
	if t.running[key.Namespace]--; t.running[key.Namespace] == 0 {
		delete(t.running, key.Namespace)
	}
}

func (t *turns) hasNext() bool {
	_, at := t.next()
	return at != nil
}

// next is the flow whose turn it is, nil when none may have a worker. Flows that may not are passed over: workers have keys of each of
// them, so there are not many.
func (t *turns) next() (*band, *list.Element) {
	for _, one := range t.bands {
		for at := one.order.Front(); at != nil; at = at.Next() {
			if t.mayRun(at.Value.(*flow).namespace) {
				return one, at
			}
		}
	}
	return nil, nil
}

// mayRun reports whether a key of a namespace may have a free worker.
func (t *turns) mayRun(namespace string) bool {
	return t.running[namespace] == 0 || t.busy+1 < t.workers || !t.tenants.others(namespace)
}

func (t *turns) band(priority int) *band {
	at, known := slices.BinarySearchFunc(t.bands, priority, func(one *band, priority int) int { return cmp.Compare(priority, one.priority) })
	if !known {
		t.bands = slices.Insert(t.bands, at, &band{priority: priority, flows: map[string]*list.Element{}})
	}
	return t.bands[at]
}

// remove takes a key out, and what is empty without it.
func (t *turns) remove(key reconcile.Request) {
	from := t.places[key]
	delete(t.places, key)
	at := from.band.flows[key.Namespace]
	keys := &at.Value.(*flow).keys
	if keys.Remove(from.key); keys.Len() > 0 {
		return
	}
	from.band.order.Remove(at)
	delete(from.band.flows, key.Namespace)
	if from.band.order.Len() == 0 {
		t.bands = slices.DeleteFunc(t.bands, func(one *band) bool { return one == from.band })
	}
}

// tenants are the namespaces whose objects a controller reconciles. Namespaces whose objects it only leaves alone do not count.
type tenants struct {
	mu    sync.Mutex
	first string
	known int // 2 stands for more as well
}

// add takes note of a namespace. Objects outside of all namespaces have none.
func (t *tenants) add(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.known == 0:
		t.first, t.known = namespace, 1
	case t.known == 1 && namespace != t.first:
		t.known = 2
	}
}

// others reports whether there are any beside this namespace, which may be none itself.
func (t *tenants) others(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known > 1 || t.known == 1 && t.first != namespace
}

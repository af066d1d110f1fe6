package kit

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A fairQueue is the work queue of a controller. Namespaces share it fairly: one with many keys does not delay the others.
//
// It promises:
//   - A key is in the queue once, however often it was added: with the highest of its priorities, at the earliest of its times. One worker
//     has it at a time. Requests in the meantime are served afterwards.
//   - Keys of a higher priority come first. Namespaces with keys of the same priority take turns, and each gets its keys in their order.
//   - While there are objects of other namespaces, a namespace does not get the last free worker, unless no worker has a key of it.
//
// It consists of two queues: one of controller-runtime, which merges the requests for a key and holds it until it is due, and one of
// client-go with the keys that are due. The latter has the metrics.
type fairQueue struct {
	delayed priorityqueue.PriorityQueue[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	retries workqueue.TypedDelayingInterface[reconcile.Request]

	mu           sync.Mutex
	due          workqueue.TypedInterface[reconcile.Request]
	order        *fairOrder
	ready        *sync.Cond // signalled when a worker may have a key
	shuttingDown bool
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &fairQueue{}

func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], order *fairOrder) *fairQueue {
	q := &fairQueue{
		limiter: limiter, order: order,
		delayed: priorityqueue.New("", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
		due:     workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: order}),
		retries: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name,
			Queue: discardQueue{}}),
	}
	q.ready = sync.NewCond(&q.mu)
	go q.moveDueKeys()
	return q
}

// moveDueKeys passes on the keys that are due.
func (q *fairQueue) moveDueKeys() {
	for {
		key, priority, shutdown := q.delayed.GetWithPriority()
		if shutdown {
			return
		}
		q.addDue(key, priority)
		q.delayed.Done(key)
	}
}

func (q *fairQueue) addDue(key reconcile.Request, priority int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order.raisePriority(key, priority)
	q.due.Add(key)
	q.wakeWorker()
}

// wakeWorker wakes a waiting worker if there is a key for it.
func (q *fairQueue) wakeWorker() {
	if q.order.hasNext() {
		q.ready.Signal()
	}
}

// AddWithOpts adds keys. A key that is already due stays due, whatever the delay.
func (q *fairQueue) AddWithOpts(options priorityqueue.AddOpts, keys ...reconcile.Request) {
	if options.After > 0 || options.RateLimited {
		keys = q.splitOffDue(options, keys)
	}
	q.delayed.AddWithOpts(options, keys...)
}

// splitOffDue raises the priority of the keys that are due, and returns the others.
func (q *fairQueue) splitOffDue(options priorityqueue.AddOpts, keys []reconcile.Request) []reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	priority := 0
	if options.Priority != nil {
		priority = *options.Priority
	}
	var others []reconcile.Request
	for _, key := range keys {
		q.retries.AddAfter(key, 0)
		switch {
		case !q.order.isDue(key):
			others = append(others, key)
			continue
		case options.RateLimited:
			q.limiter.When(key) // counts as one more failure
		}
		q.order.raisePriority(key, priority)
		q.due.Add(key)
	}
	return others
}

// Add adds a key.
func (q *fairQueue) Add(key reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, key) }

// AddAfter adds a key after the delay.
func (q *fairQueue) AddAfter(key reconcile.Request, delay time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: delay}, key)
}

// AddRateLimited adds a key after its back-off.
func (q *fairQueue) AddRateLimited(key reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, key)
}

// Forget resets the back-off of a key.
func (q *fairQueue) Forget(key reconcile.Request) { q.limiter.Forget(key) }

// NumRequeues returns how often a key has failed in a row.
func (q *fairQueue) NumRequeues(key reconcile.Request) int { return q.limiter.NumRequeues(key) }

// Get waits for a key. See GetWithPriority.
func (q *fairQueue) Get() (reconcile.Request, bool) {
	key, _, shutdown := q.GetWithPriority()
	return key, shutdown
}

// GetWithPriority waits for a key that the caller may have. The caller must call Done with it. After ShutDown no key is handed out.
func (q *fairQueue) GetWithPriority() (key reconcile.Request, priority int, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.shuttingDown && !q.order.hasNext() {
		q.ready.Wait()
	}
	if q.shuttingDown {
		return key, 0, true
	}
	key, _ = q.due.Get() // does not block: there is a key
	q.wakeWorker()
	return key, q.order.lastPriority, false
}

// Done marks a key as processed.
func (q *fairQueue) Done(key reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order.done(key)
	q.due.Done(key)
	q.wakeWorker()
}

// Len returns the number of due keys.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.due.Len()
}

// ShutDown ends the queue and drops its keys.
func (q *fairQueue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shuttingDown {
		return
	}
	q.shuttingDown = true
	q.delayed.ShutDown()
	q.due.ShutDown()
	q.retries.ShutDown()
	q.ready.Broadcast()
}

// ShutDownWithDrain is the same as ShutDown, as in the queues of controller-runtime, which does not call it.
func (q *fairQueue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether the queue has ended.
func (q *fairQueue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shuttingDown
}

// discardQueue drops keys. In client-go only the delaying queue counts retries, so one is needed for that metric.
type discardQueue struct {
	workqueue.TypedInterface[reconcile.Request]
}

func (discardQueue) Add(reconcile.Request) {}
func (discardQueue) ShutDown()             {}
func (discardQueue) ShuttingDown() bool    { return false }

package kit

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Trigger requests reconciles for reasons other than changed objects, such as a message on a stream. The zero Trigger is ready for use.
type Trigger struct {
	lock  sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Now requests a reconcile. It never blocks. Before the controller runs it does nothing, because all objects are reconciled at the start.
func (s *Trigger) Now(name types.NamespacedName) { s.After(name, 0) }

// After requests a reconcile after the delay; an earlier request in the meantime replaces it.
func (s *Trigger) After(name types.NamespacedName, delay time.Duration) {
	s.lock.Lock()
	queue := s.queue
	s.lock.Unlock()
	if queue != nil {
		queue.AddAfter(reconcile.Request{NamespacedName: name}, delay)
	}
}

// Start implements controller-runtime's source.Source.
func (s *Trigger) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.queue = queue
	return nil
}

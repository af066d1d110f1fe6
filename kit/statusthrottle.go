package kit

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusThrottle remembers when the status of each object was last written.
type statusThrottle[T client.Object] struct {
	period time.Duration
	ignore func(T)

	lock       sync.Mutex
	lastWrites ExpiringMap[types.UID, time.Time]
}

// Throttled delays small changes: a report that changes only what mute removes is due no sooner than the period after the last one. See
// Report.WriteDelay.
func (s *Status[T]) Throttled(period time.Duration, ignore func(T)) *Status[T] {
	s.throttle = &statusThrottle[T]{period: period, ignore: ignore, lastWrites: ExpiringMap[types.UID, time.Time]{MinTTL: period}}
	return s
}

// WriteDelay returns how long this report should wait: zero if it has changes that cannot wait, or none at all.
func (r *Report[T]) WriteDelay() time.Duration {
	throttle := r.status.throttle
	if throttle == nil || equality.Semantic.DeepEqual(r.before, client.Object(r.object)) {
		return 0
	}
	before, after := r.before.DeepCopyObject().(T), r.object.DeepCopyObject().(T)
	throttle.ignore(before)
	throttle.ignore(after)
	if !equality.Semantic.DeepEqual(before, after) {
		return 0
	}
	throttle.lock.Lock()
	defer throttle.lock.Unlock()
	lastWrite, _ := throttle.lastWrites.Get(r.object.GetUID())
	return max(0, time.Until(lastWrite.Add(throttle.period)))
}

// recordWrite remembers a write.
func (p *statusThrottle[T]) recordWrite(uid types.UID) {
	if p == nil {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.lastWrites.Put(uid, time.Now())
}

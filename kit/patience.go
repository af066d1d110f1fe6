package kit

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience remembers when the status of each object was last written.
type patience[T client.Object] struct {
	period time.Duration
	mute   func(T)

	lock  sync.Mutex
	wrote Recent[types.UID, time.Time]
}

// Patient lets small news wait: a report in which nothing has changed outside of what mute removes is due no sooner than the period after
// the last one. See Report.Patience.
func (s *Status[T]) Patient(period time.Duration, mute func(T)) *Status[T] {
	s.patience = &patience[T]{period: period, mute: mute, wrote: Recent[types.UID, time.Time]{Keep: period}}
	return s
}

// Patience is how long this report should wait: zero if it has news that cannot wait, or no news at all.
func (r *Report[T]) Patience() time.Duration {
	p := r.status.patience
	if p == nil || equality.Semantic.DeepEqual(r.before, client.Object(r.object)) {
		return 0
	}
	before, after := r.before.DeepCopyObject().(T), r.object.DeepCopyObject().(T)
	p.mute(before)
	p.mute(after)
	if !equality.Semantic.DeepEqual(before, after) {
		return 0
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	wrote, _ := p.wrote.Get(r.object.GetUID())
	return max(0, time.Until(wrote.Add(p.period)))
}

// note remembers a write.
func (p *patience[T]) note(uid types.UID) {
	if p == nil {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.wrote.Put(uid, time.Now())
}

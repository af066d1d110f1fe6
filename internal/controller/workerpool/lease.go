package workerpool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// soonest is how long a look at a Lease is good for, and when the next one is at the earliest.
const soonest = time.Second

// A sighting is a worker's own Lease (docs/worker.md) as it was seen past the cache. How old it is goes by when it was seen, never by the
// times in it, which are another clock's.
type sighting struct {
	version  string // of the Lease; "" when there is none
	holder   string // the UID of a pod
	duration time.Duration
	renewed  bool      // it has changed since it was first seen
	since    time.Time // of being as it is: after the answer that showed it first
	checked  time.Time // before the question that showed it last
}

// free is when the Lease has run out, if it is not renewed.
func (s sighting) free() time.Time { return s.since.Add(lease.Silence(s.duration)) }

// shadows tells whether somebody may live on who is not the pod that is there now, if there is any: pods come and go by their UID.
func (s sighting) shadows(pod *corev1.Pod) bool {
	return s.holder != "" && (pod == nil || string(pod.UID) != s.holder) && s.checked.Before(s.free())
}

// saw is the note after another look. It begins anew with everything that is new.
func (s sighting) saw(next sighting) sighting {
	if next.version == s.version {
		next.since, next.renewed = s.since, s.renewed
	} else {
		next.renewed = s.version != "" && next.holder == s.holder
	}
	return next
}

// bereft are the workers whose absence would free jobs: nobody is there of whom they may be, or somebody else has come in their place. What
// the pods are was read before; so a process whose pod is not among them, and that takes its Lease later, finds its pod gone.
func (w world) bereft(memory *memory) []string {
	if !w.verified && !w.published.revoking() {
		return nil
	}
	var names []string
	present := w.holders()
	for _, record := range w.published.records(w.workload) {
		pod := present[record.Worker]
		if w.gone[record.Worker] || pod != nil && len(record.Lists) > 1 && memory.succeeds(pod, record) {
			names = append(names, record.Worker)
		}
	}
	return names
}

// freed tells whether others could have jobs of a worker if it were gone: it was told to give them up, or nobody is to come back under its name.
func (w world) freed(record assign.Record) bool {
	passing := w.workload.slotted() || !w.workload.expects(record.Ordinal)
	return len(record.Lists) > 1 || passing && len(record.Current()) > 0
}

// revoking tells whether anybody may hold more than what is published.
func (p published) revoking() bool {
	for _, account := range p.ledger {
		if len(account.Earlier) > 0 {
			return true
		}
	}
	return false
}

// look notes the Leases of workers, and forgets all others.
func (r *reconciler) look(ctx context.Context, pool *v1alpha1.WorkerPool, workers []string, memory *memory) error {
	var lock sync.Mutex
	var problems []error
	noted := notes[sighting](nil)
	slots, done := make(chan struct{}, abreast), sync.WaitGroup{}
	for _, worker := range workers {
		known := memory.leases[worker]
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			next, err := r.sight(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: lease.Name(worker)}, known)
			lock.Lock()
			defer lock.Unlock()
			problems = append(problems, err)
			noted.take(worker, next)
		})
	}
	done.Wait()
	memory.leases = noted
	return errors.Join(problems...)
}

// sight looks at a Lease, unless that was just done.
func (r *reconciler) sight(ctx context.Context, key client.ObjectKey, known sighting) (sighting, error) {
	asked := time.Now()
	if asked.Sub(known.checked) < soonest && known.shadows(nil) {
		return known, nil
	}
	object := &coordinationv1.Lease{}
	err := r.live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return sighting{checked: asked}, nil
	}
	if err != nil {
		return known, fmt.Errorf("look at Lease %q, whose holder may live on: %w", key.Name, err)
	}
	return known.saw(sighting{
		version: string(object.UID) + "/" + object.ResourceVersion, holder: ptr.Deref(object.Spec.HolderIdentity, ""),
		duration: time.Duration(ptr.Deref(object.Spec.LeaseDurationSeconds, 0)) * time.Second, since: time.Now(), checked: asked,
	}), nil
}

// shadowed tells whether somebody who is gone may still run the jobs of a worker, and sees to it that we look again.
func (d *draft) shadowed(worker string) bool {
	seen := d.memory.leases[worker]
	if !seen.shadows(d.holders[worker]) {
		return false
	}
	d.crew.await(max(soonest, min(seen.free().Sub(d.now), seen.duration/3)))
	return true
}

// shade says for whom the pool really waits, and roughly until when.
func (d *draft) shade(waiting []assign.Waiting) []assign.Waiting {
	for n, one := range waiting {
		if seen := d.memory.leases[one.Worker]; seen.shadows(d.holders[one.Worker]) {
			waiting[n].Reason = seen.reason(one.Worker, d.now)
		}
	}
	return waiting
}

// reason changes only when there is news.
func (s sighting) reason(worker string, now time.Time) string {
	text := fmt.Sprintf("its pod %s is gone, but holds Lease %q, so that its process may live on and its jobs stay with it", s.holder, lease.Name(worker))
	if s.renewed && now.Sub(s.since) < s.duration/2 {
		return text + ": it is still renewed"
	}
	return fmt.Sprintf("%s until about %s, if it is not renewed", text, s.free().UTC().Format("15:04:05 UTC"))
}

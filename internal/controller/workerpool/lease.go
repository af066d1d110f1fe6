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

// soonest is how long an observed Lease is considered current, and the minimum delay before the next read.
const soonest = time.Second

// A sighting is a worker's own Lease (docs/reference/worker.md) as observed past the cache. Its age is measured from the observation, never from
// the times in the Lease, which come from another clock.
type sighting struct {
	version  string // of the Lease; "" if there is none
	holder   string // the UID of a pod
	duration time.Duration
	renewed  bool      // it has changed since it was first observed
	since    time.Time // taken after the first response with this version
	checked  time.Time // taken before the last request
}

// free returns when the Lease expires if it is not renewed.
func (s sighting) free() time.Time { return s.since.Add(lease.TakeoverDelay(s.duration)) }

// shadows reports whether a process of an earlier pod may still run. Pods are identified by UID; pod is nil if there is none.
func (s sighting) shadows(pod *corev1.Pod) bool {
	return s.holder != "" && (pod == nil || string(pod.UID) != s.holder) && s.checked.Before(s.free())
}

// saw merges a new observation. A new version or holder restarts its tracking.
func (s sighting) saw(next sighting) sighting {
	if next.version == s.version {
		next.since, next.renewed = s.since, s.renewed
	} else {
		next.renewed = s.version != "" && next.holder == s.holder
	}
	return next
}

// bereft returns workers whose pod is missing or was replaced while others wait for their jobs. The pods were read before; a process that
// is not in one of them, and acquires its Lease later, finds its pod gone.
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

// freed reports whether others could get jobs of a worker if its pod were gone: jobs were revoked, or no pod will return under its name.
func (w world) freed(record assign.Record) bool {
	passing := w.workload.slotted() || !w.workload.expects(record.Ordinal)
	return len(record.Lists) > 1 || passing && len(record.Current()) > 0
}

// revoking reports whether any worker may hold more than is published.
func (p published) revoking() bool {
	for _, account := range p.ledger {
		if len(account.Earlier) > 0 {
			return true
		}
	}
	return false
}

// look observes the Leases of workers, and drops all others.
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

// sight reads a Lease, unless that was just done.
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

// shadowed reports whether an earlier pod's process may still run the jobs of a worker, and schedules another check.
func (d *draft) shadowed(worker string) bool {
	seen := d.memory.leases[worker]
	if !seen.shadows(d.holders[worker]) {
		return false
	}
	d.crew.await(max(soonest, min(seen.free().Sub(d.now), seen.duration/3)))
	return true
}

// shade replaces the reason to wait by the Lease that the pool waits for, and its approximate end.
func (d *draft) shade(waiting []assign.PendingWorker) []assign.PendingWorker {
	for n, one := range waiting {
		if seen := d.memory.leases[one.Worker]; seen.shadows(d.holders[one.Worker]) {
			waiting[n].Reason = seen.reason(one.Worker, d.now)
		}
	}
	return waiting
}

// reason returns a text that changes only if the situation does.
func (s sighting) reason(worker string, now time.Time) string {
	text := fmt.Sprintf("its pod %s is gone, but holds Lease %q, so that its process may live on and its jobs stay with it", s.holder, lease.Name(worker))
	if s.renewed && now.Sub(s.since) < s.duration/2 {
		return text + ": it is still renewed"
	}
	return fmt.Sprintf("%s until about %s, if it is not renewed", text, s.free().UTC().Format("15:04:05 UTC"))
}

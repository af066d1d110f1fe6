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
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// minLeaseCheckInterval is how long an observed Lease is considered current, and the minimum delay before the next read.
const minLeaseCheckInterval = time.Second

// A leaseObservation is a worker's own Lease (docs/reference/worker.md) as observed past the cache. Its age is measured from the
// observation, never from the times in the Lease, which come from another clock.
type leaseObservation struct {
	resourceVersion string // of the Lease; "" if there is none
	holderUID       string // the UID of a pod
	duration        time.Duration
	renewed         bool      // it has changed since it was first observed
	observedSince   time.Time // taken after the first response with this version
	checkedAt       time.Time // taken before the last request
}

// expiry returns when the Lease expires if it is not renewed.
func (o leaseObservation) expiry() time.Time {
	return o.observedSince.Add(lease.TakeoverDelay(o.duration))
}

// mayStillRun reports whether a process of an earlier pod may still run. Pods are identified by UID; pod is nil if there is none.
func (o leaseObservation) mayStillRun(pod *corev1.Pod) bool {
	return o.holderUID != "" && (pod == nil || string(pod.UID) != o.holderUID) && o.checkedAt.Before(o.expiry())
}

// merge merges a new observation. A new version or holder restarts its tracking.
func (o leaseObservation) merge(next leaseObservation) leaseObservation {
	if next.resourceVersion == o.resourceVersion {
		next.observedSince, next.renewed = o.observedSince, o.renewed
	} else {
		next.renewed = o.resourceVersion != "" && next.holderUID == o.holderUID
	}
	return next
}

// goneHolders returns workers whose pod is missing or was replaced while others wait for their jobs. The pods were read before; a process
// that is not in one of them, and acquires its Lease later, finds its pod gone.
func (s poolSnapshot) goneHolders(state *localState) []string {
	if !s.podsVerified && !s.published.hasUnreleasedJobs() {
		return nil
	}
	var names []string
	holderPods := s.holderPods()
	for _, record := range s.published.records(s.workload) {
		pod := holderPods[record.Worker]
		if s.goneWorkers[record.Worker] || pod != nil && len(record.Lists) > 1 && state.isSuccessor(pod, record) {
			names = append(names, record.Worker)
		}
	}
	return names
}

// absenceFreesJobs reports whether others could get jobs of a worker if its pod were gone: jobs were revoked, or no pod will return under
// its name.
func (s poolSnapshot) absenceFreesJobs(record assign.Record) bool {
	temporary := s.workload.usesSlots() || !s.workload.expectsOrdinal(record.Ordinal)
	return len(record.Lists) > 1 || temporary && len(record.Current()) > 0
}

// hasUnreleasedJobs reports whether any worker may hold more than is published.
func (p publishedConfig) hasUnreleasedJobs() bool {
	for _, entry := range p.ledger {
		if len(entry.Earlier) > 0 {
			return true
		}
	}
	return false
}

// readLeases observes the Leases of workers, and drops all others.
func (r *reconciler) readLeases(ctx context.Context, pool *v1alpha1.WorkerPool, workers []string, state *localState) error {
	var lock sync.Mutex
	var errs []error
	observed := workerMap[leaseObservation](nil)
	semaphore, wg := make(chan struct{}, maxParallelRequests), sync.WaitGroup{}
	for _, worker := range workers {
		previous := state.leases[worker]
		semaphore <- struct{}{}
		wg.Go(func() {
			defer func() { <-semaphore }()
			next, err := r.readLease(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: lease.Name(worker)}, previous)
			lock.Lock()
			defer lock.Unlock()
			errs = append(errs, err)
			observed.set(worker, next)
		})
	}
	wg.Wait()
	state.leases = observed
	return errors.Join(errs...)
}

// readLease reads a Lease, unless that was just done.
func (r *reconciler) readLease(ctx context.Context, key client.ObjectKey, previous leaseObservation) (leaseObservation, error) {
	requestedAt := time.Now()
	if requestedAt.Sub(previous.checkedAt) < minLeaseCheckInterval && previous.mayStillRun(nil) {
		return previous, nil
	}
	object := &coordinationv1.Lease{}
	err := r.apiReader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return leaseObservation{checkedAt: requestedAt}, nil
	}
	if err != nil {
		return previous, fmt.Errorf("look at Lease %q, whose holder may live on: %w", key.Name, err)
	}
	return previous.merge(leaseObservation{
		resourceVersion: string(object.UID) + "/" + object.ResourceVersion, holderUID: ptr.Deref(object.Spec.HolderIdentity, ""),
		duration: time.Duration(ptr.Deref(object.Spec.LeaseDurationSeconds, 0)) * time.Second, observedSince: time.Now(), checkedAt: requestedAt,
	}), nil
}

// earlierPodMayRun reports whether an earlier pod's process may still run the jobs of a worker, and schedules another check.
func (p *planner) earlierPodMayRun(worker string) bool {
	obs := p.state.leases[worker]
	if !obs.mayStillRun(p.holderPods[worker]) {
		return false
	}
	p.memberSet.requeueWithin(max(minLeaseCheckInterval, min(obs.expiry().Sub(p.now), obs.duration/3)))
	return true
}

// explainLeases replaces the reason to wait by the Lease that the pool waits for, and its approximate end.
func (p *planner) explainLeases(pending []assign.PendingWorker) []assign.PendingWorker {
	for n, worker := range pending {
		if obs := p.state.leases[worker.Worker]; obs.mayStillRun(p.holderPods[worker.Worker]) {
			pending[n].Reason = obs.reason(worker.Worker, p.now)
		}
	}
	return pending
}

// reason returns a text that changes only if the situation does.
func (o leaseObservation) reason(worker string, now time.Time) string {
	text := fmt.Sprintf("its pod %s is gone, but holds Lease %q, so that its process may live on and its jobs stay with it", o.holderUID,
		lease.Name(worker))
	if o.renewed && now.Sub(o.observedSince) < o.duration/2 {
		return text + ": it is still renewed"
	}
	return fmt.Sprintf("%s until about %s, if it is not renewed", text, o.expiry().UTC().Format("15:04:05 UTC"))
}

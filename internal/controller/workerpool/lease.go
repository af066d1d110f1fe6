package workerpool

import (
	"time"

	corev1 "k8s.io/api/core/v1"

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

// earlierPodMayRun reports whether an earlier pod's process may still run the jobs of a worker, and schedules another check.
func (p *planner) earlierPodMayRun(worker string) bool {
	obs := p.clocks.leases[worker]
	if !obs.mayStillRun(p.holderPods[worker]) {
		return false
	}
	p.memberSet.requeueWithin(max(minLeaseCheckInterval, min(obs.expiry().Sub(p.now), obs.duration/3)))
	return true
}

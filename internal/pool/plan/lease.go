package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/worker/lease"
)

// MinLeaseCheckInterval is how long an observed Lease is considered current, and the minimum delay before the next read.
const MinLeaseCheckInterval = time.Second

// A LeaseObservation is a worker's own Lease (docs/reference/worker.md) as observed past the cache. Its age is measured from the
// observation, never from the times in the Lease, which come from another clock.
type LeaseObservation struct {
	ResourceVersion string // of the Lease; "" if there is none
	HolderUID       string // the UID of a pod
	Duration        time.Duration
	renewed         bool      // it has changed since it was first observed
	ObservedSince   time.Time // taken after the first response with this version
	CheckedAt       time.Time // taken before the last request
}

// expiry returns when the Lease expires if it is not renewed.
func (o LeaseObservation) expiry() time.Time {
	return o.ObservedSince.Add(lease.TakeoverDelay(o.Duration))
}

// MayStillRun reports whether a process of an earlier pod may still run. Pods are identified by UID; pod is nil if there is none.
func (o LeaseObservation) MayStillRun(pod *corev1.Pod) bool {
	return o.HolderUID != "" && (pod == nil || string(pod.UID) != o.HolderUID) && o.CheckedAt.Before(o.expiry())
}

// Merge merges a new observation. A new version or holder restarts its tracking.
func (o LeaseObservation) Merge(next LeaseObservation) LeaseObservation {
	if next.ResourceVersion == o.ResourceVersion {
		next.ObservedSince, next.renewed = o.ObservedSince, o.renewed
	} else {
		next.renewed = o.ResourceVersion != "" && next.HolderUID == o.HolderUID
	}
	return next
}

// earlierPodMayRun reports whether an earlier pod's process may still run the jobs of a worker, and schedules another check.
func (p *planner) earlierPodMayRun(worker string) bool {
	obs := p.clocks.Leases[worker]
	if !obs.MayStillRun(p.holderPods[worker]) {
		return false
	}
	p.memberSet.requeueWithin(max(MinLeaseCheckInterval, min(obs.expiry().Sub(p.now), obs.Duration/3)))
	return true
}

package plan

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// Clocks are the memory of a plan: what it waits for and since when, and what was sent that the cache may not show yet. All of it can be
// lost at any time: a new leader waits longer, never shorter.
type Clocks struct {
	pendingAcks  WorkerMap[pendingAck]
	missingSince WorkerMap[time.Time] // workers without a pod, since when
	ObservedPods WorkerMap[PodObservation]
	lastNudges   WorkerMap[lastNudge]
	revocations  WorkerMap[revocation]
	Slots        WorkerMap[slotAssignment]   // written, or about to be
	Leases       WorkerMap[LeaseObservation] // of workers whose pod is gone
}

// clone returns clocks that can be changed without changing these.
func (c Clocks) clone() Clocks {
	return Clocks{
		pendingAcks: maps.Clone(c.pendingAcks), missingSince: maps.Clone(c.missingSince), ObservedPods: maps.Clone(c.ObservedPods),
		lastNudges: maps.Clone(c.lastNudges), revocations: maps.Clone(c.revocations), Slots: maps.Clone(c.Slots), Leases: maps.Clone(c.Leases),
	}
}

// pendingAck is a worker that has yet to confirm a version, and since when.
type pendingAck struct {
	podUID  string
	version int64
	since   time.Time
}

// lastNudge is the last patch of a pod, and its time: the cache may not have it yet.
type lastNudge struct {
	patch  string
	sentAt time.Time
}

// slotAssignment is the slot of a pod of a Deployment.
type slotAssignment struct {
	podUID          types.UID // of the pod
	number          int
	resourceVersion string // of the pod with that number; "" if the write is not known to have succeeded
}

// PodObservation is a pod seen, past the cache, after a version was published.
type PodObservation struct {
	ListVersion int64
	PodUID      string
}

// WorkerMap are records by worker. The map is nil while it is empty, because an emptied map keeps room for eight entries, and most pools
// wait for no worker.
type WorkerMap[T any] map[string]T

func (n *WorkerMap[T]) Set(worker string, value T) {
	if *n == nil {
		*n = WorkerMap[T]{}
	}
	(*n)[worker] = value
}

func (n *WorkerMap[T]) remove(worker string) {
	delete(*n, worker)
	if len(*n) == 0 {
		*n = nil
	}
}

// absentSince returns since when a worker has no pod.
func (c *Clocks) absentSince(worker string, now time.Time) time.Time {
	since, exists := c.missingSince[worker]
	if !exists {
		since = now
		c.missingSince.Set(worker, now)
	}
	return since
}

// waitingSince returns since when a record's pod has had to confirm its version.
func (c *Clocks) waitingSince(record assign.Record, now time.Time) time.Time {
	version := record.Lists[len(record.Lists)-1].Version
	pending := c.pendingAcks[record.Worker]
	if pending.podUID != record.PodUID || pending.version != version {
		pending = pendingAck{record.PodUID, version, now}
		c.pendingAcks.Set(record.Worker, pending)
	}
	return pending.since
}

// clearPendingAck ends the wait for a worker.
func (c *Clocks) clearPendingAck(worker string) { c.pendingAcks.remove(worker) }

// isSuccessor reports whether a pod replaced one seen after the record's list was published: it started with that list.
func (c *Clocks) isSuccessor(pod *corev1.Pod, record assign.Record) bool {
	observed := c.ObservedPods[pod.Name]
	return observed.PodUID != "" && observed.PodUID != string(pod.UID) && observed.ListVersion == record.Lists[len(record.Lists)-1].Version
}

// maxCacheLag is the time after which the cache must have a nudge.
const maxCacheLag = 5 * time.Second

// wasJustSent reports whether the same patch was just sent to the pod.
func (c *Clocks) wasJustSent(n Nudge, now time.Time) bool {
	last := c.lastNudges[n.Pod.Name]
	return last.patch == n.String() && now.Sub(last.sentAt) < maxCacheLag
}

// ReserveSlots remembers the slots that are about to be written.
func (c *Clocks) ReserveSlots(nudges []Nudge) {
	for _, n := range nudges {
		if number, hasSlot := n.slot(); hasSlot {
			c.Slots.Set(n.Pod.Name, slotAssignment{podUID: n.Pod.UID, number: number})
		}
	}
}

// RecordNudges remembers the patches sent to pods. A patch whose pod was gone or replaced has no version.
func (c *Clocks) RecordNudges(nudges []Nudge, now time.Time) {
	for _, n := range nudges {
		c.lastNudges.Set(n.Pod.Name, lastNudge{n.String(), now})
		number, hasSlot := n.slot()
		switch {
		case !hasSlot:
		case n.ResourceVersion == "":
			c.Slots.remove(n.Pod.Name)
		default:
			c.Slots.Set(n.Pod.Name, slotAssignment{n.Pod.UID, number, n.ResourceVersion})
		}
	}
}

// RecordEvictions remembers pods that were evicted: their successors start with the list that was published before.
func (c *Clocks) RecordEvictions(evictions []Eviction) {
	for _, e := range evictions {
		c.ObservedPods.Set(e.Pod.Name, PodObservation{ListVersion: e.ListVersion, PodUID: string(e.Pod.UID)})
	}
}

// slotOf returns the slot that a pod was last given. Reading it from a stale cache could give the pod another slot, and make two pods
// trade places.
func (c *Clocks) slotOf(pod *corev1.Pod) int {
	assigned, exists := c.Slots[pod.Name]
	if !exists {
		return slotOf(pod)
	}
	if assigned.podUID == pod.UID && (assigned.resourceVersion == "" || isOlderVersion(pod.ResourceVersion, assigned.resourceVersion)) {
		return assigned.number
	}
	c.Slots.remove(pod.Name)
	return slotOf(pod)
}

func isOlderVersion(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}

// forgetSlots drops the slots of pods that are gone.
func (c *Clocks) forgetSlots(present map[string]*corev1.Pod) {
	for worker := range c.Slots {
		if present[worker] == nil {
			c.Slots.remove(worker)
		}
	}
}

// revocation is the time since when a worker is known to have a list that replaces earlier ones.
type revocation struct {
	version int64
	since   time.Time
}

// revokedSince returns when this leader first saw the newest list of a worker that may still hold jobs of earlier ones.
func (c *Clocks) revokedSince(record assign.Record, now time.Time) time.Time {
	version := record.Lists[len(record.Lists)-1].Version
	last := c.revocations[record.Worker]
	if last.version != version {
		last = revocation{version, now}
		c.revocations.Set(record.Worker, last)
	}
	return last.since
}

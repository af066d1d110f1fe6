package workerpool

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// localState is the state of a pool between reconciles: indexes that are expensive to rebuild, writes that the cache does not have yet, and
// since when the pool waits for workers. All of it can be lost at any time.
type localState struct {
	poolUID           types.UID
	jobs              poolJobs
	newestRevision    *storedRevision       // the newest revision
	followsNewest     bool                  // the pool follows it, or creates one; others are not kept, since users may have made them
	holdsRevisionLock bool                  // permission to hold long revisions
	configMaps        map[string]*configMap // by name, as last read or written
	ensuredTerm       int64                 // in which the leader last took over all ConfigMaps; 0 for none
	pendingAcks       workerMap[pendingAck]
	missingSince      workerMap[time.Time] // workers without a pod, since when
	observedPods      workerMap[podObservation]
	lastNudges        workerMap[lastNudge]
	revocations       workerMap[revocation]
	slots             workerMap[slotAssignment]   // written, or about to be
	leases            workerMap[leaseObservation] // of workers whose pod is gone
	convergingSince   time.Time                   // when the pool last stopped being converged
	events            []pendingEvent              // yet to be reported
}

// pendingEvent is something that happened, and the object it concerns.
type pendingEvent struct {
	reason, message string
	regarding       *corev1.ObjectReference
	warning         bool
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

// podObservation is a pod seen, past the cache, after a version was published.
type podObservation struct {
	listVersion int64
	podUID      string
}

func newLocalState(poolUID types.UID) *localState {
	return &localState{poolUID: poolUID, configMaps: map[string]*configMap{}}
}

// workerMap are records by worker. The map is nil while it is empty, because an emptied map keeps room for eight entries, and most pools
// wait for no worker.
type workerMap[T any] map[string]T

func (n *workerMap[T]) set(worker string, value T) {
	if *n == nil {
		*n = workerMap[T]{}
	}
	(*n)[worker] = value
}

func (n *workerMap[T]) remove(worker string) {
	delete(*n, worker)
	if len(*n) == 0 {
		*n = nil
	}
}

// compactJobLimit is the number of jobs up to which reading them again is cheaper than keeping them for each of a thousand pools.
const compactJobLimit = 256

// compact drops what can be rebuilt from the cache, and from the revision and the ConfigMaps that are kept.
func (s *localState) compact() {
	s.jobs = poolJobs{}
	if s.newestRevision != nil {
		s.newestRevision.index = nil
	}
	for name, cm := range s.configMaps {
		s.configMaps[name] = &configMap{object: cm.object, contentDropped: true, fencedTerm: cm.fencedTerm}
	}
}

// absentSince returns since when a worker has no pod.
func (s *localState) absentSince(worker string, now time.Time) time.Time {
	since, exists := s.missingSince[worker]
	if !exists {
		since = now
		s.missingSince.set(worker, now)
	}
	return since
}

// waitingSince returns since when a record's pod has had to confirm its version.
func (s *localState) waitingSince(record assign.Record, now time.Time) time.Time {
	version := record.Lists[len(record.Lists)-1].Version
	pending := s.pendingAcks[record.Worker]
	if pending.podUID != record.PodUID || pending.version != version {
		pending = pendingAck{record.PodUID, version, now}
		s.pendingAcks.set(record.Worker, pending)
	}
	return pending.since
}

// clearPendingAck ends the wait for a worker.
func (s *localState) clearPendingAck(worker string) { s.pendingAcks.remove(worker) }

// isSuccessor reports whether a pod replaced one seen after the record's list was published: it started with that list.
func (s *localState) isSuccessor(pod *corev1.Pod, record assign.Record) bool {
	observed := s.observedPods[pod.Name]
	return observed.podUID != "" && observed.podUID != string(pod.UID) && observed.listVersion == record.Lists[len(record.Lists)-1].Version
}

// maxCacheLag is the time after which the cache must have a nudge.
const maxCacheLag = 5 * time.Second

// wasJustSent reports whether the same patch was just sent to the pod.
func (s *localState) wasJustSent(n nudge, now time.Time) bool {
	last := s.lastNudges[n.pod.Name]
	return last.patch == n.String() && now.Sub(last.sentAt) < maxCacheLag
}

// reserveSlots remembers the slots that are about to be written.
func (s *localState) reserveSlots(nudges []nudge) {
	for _, n := range nudges {
		if number, hasSlot := n.slot(); hasSlot {
			s.slots.set(n.pod.Name, slotAssignment{podUID: n.pod.UID, number: number})
		}
	}
}

// recordNudges remembers the patches sent to pods. A patch whose pod was gone or replaced has no version.
func (s *localState) recordNudges(nudges []nudge, now time.Time) {
	for _, n := range nudges {
		s.lastNudges.set(n.pod.Name, lastNudge{n.String(), now})
		number, hasSlot := n.slot()
		switch {
		case !hasSlot:
		case n.resourceVersion == "":
			s.slots.remove(n.pod.Name)
		default:
			s.slots.set(n.pod.Name, slotAssignment{n.pod.UID, number, n.resourceVersion})
		}
	}
}

// slotOf returns the slot that a pod was last given. Reading it from a stale cache could give the pod another slot, and make two pods
// trade places.
func (s *localState) slotOf(pod *corev1.Pod) int {
	assigned, exists := s.slots[pod.Name]
	if !exists {
		return slotOf(pod)
	}
	if assigned.podUID == pod.UID && (assigned.resourceVersion == "" || isOlderVersion(pod.ResourceVersion, assigned.resourceVersion)) {
		return assigned.number
	}
	s.slots.remove(pod.Name)
	return slotOf(pod)
}

func isOlderVersion(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}

// forgetSlots drops the slots of pods that are gone.
func (s *localState) forgetSlots(present map[string]*corev1.Pod) {
	for worker := range s.slots {
		if present[worker] == nil {
			s.slots.remove(worker)
		}
	}
}

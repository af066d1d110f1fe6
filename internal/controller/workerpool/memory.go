package workerpool

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// memory is the state of a pool between reconciles: indexes that are expensive to rebuild, writes that the cache does not have yet, and
// since when the pool waits for workers. All of it can be lost at any time.
type memory struct {
	of      types.UID
	jobs    jobs
	kept    *kept             // the newest revision
	follows bool              // the pool follows it, or creates one; others are not kept in memory, since a user may have made them
	turn    bool              // permission to hold long revisions
	sheets  map[string]*sheet // by name, as last read or written
	term    int64             // in which the leader last took over all sheets; 0 for none
	asked   notes[asked]
	missing notes[time.Time] // workers without a pod, since when
	witness notes[witness]
	told    notes[told]
	revoked notes[revocation]
	slots   notes[slot]     // written, or about to be
	leases  notes[sighting] // of workers whose pod is gone
	begun   time.Time       // when the pool last stopped being converged
	news    []event         // yet to be reported
}

// event is something that happened, and the object it concerns.
type event struct {
	reason, message string
	about           *corev1.ObjectReference
	warning         bool
}

// asked is a worker that has yet to confirm a version, and since when.
type asked struct {
	uid     string
	version int64
	since   time.Time
}

// told is the last patch of a pod, and its time: the cache may not have it yet.
type told struct {
	what string
	at   time.Time
}

// slot is the slot of a pod of a Deployment.
type slot struct {
	uid     types.UID // of the pod
	number  int
	version string // of the pod with that number; "" if the write is not known to have succeeded
}

// witness is a pod seen, past the cache, after a version was published.
type witness struct {
	version int64
	uid     string
}

func newMemory(of types.UID) *memory { return &memory{of: of, sheets: map[string]*sheet{}} }

// notes are records by worker. The map is nil while it is empty, because an emptied map keeps room for eight entries, and most pools wait
// for no worker.
type notes[T any] map[string]T

func (n *notes[T]) take(worker string, note T) {
	if *n == nil {
		*n = notes[T]{}
	}
	(*n)[worker] = note
}

func (n *notes[T]) drop(worker string) {
	delete(*n, worker)
	if len(*n) == 0 {
		*n = nil
	}
}

// short is the number of jobs up to which reading them again is cheaper than keeping them for each of a thousand pools.
const short = 256

// rest drops what can be rebuilt from the cache, and from the revision and the ConfigMaps that are kept.
func (m *memory) rest() {
	m.jobs = jobs{}
	if m.kept != nil {
		m.kept.index = nil
	}
	for name, known := range m.sheets {
		m.sheets[name] = &sheet{object: known.object, folded: true, fencedIn: known.fencedIn}
	}
}

// absentSince returns since when a worker has no pod.
func (m *memory) absentSince(worker string, now time.Time) time.Time {
	since, known := m.missing[worker]
	if !known {
		since = now
		m.missing.take(worker, now)
	}
	return since
}

// waitingSince returns since when a record's pod has had to confirm its version.
func (m *memory) waitingSince(record assign.Record, now time.Time) time.Time {
	version := record.Lists[len(record.Lists)-1].Version
	known := m.asked[record.Worker]
	if known.uid != record.PodUID || known.version != version {
		known = asked{record.PodUID, version, now}
		m.asked.take(record.Worker, known)
	}
	return known.since
}

// settled ends the wait for a worker.
func (m *memory) settled(worker string) { m.asked.drop(worker) }

// succeeds reports whether a pod replaced one seen after the record's list was published: it started with that list.
func (m *memory) succeeds(pod *corev1.Pod, record assign.Record) bool {
	seen := m.witness[pod.Name]
	return seen.uid != "" && seen.uid != string(pod.UID) && seen.version == record.Lists[len(record.Lists)-1].Version
}

// caughtUp is the time after which the cache must have a nudge.
const caughtUp = 5 * time.Second

// knows reports whether the same patch was just sent to the pod.
func (m *memory) knows(one nudge, now time.Time) bool {
	known := m.told[one.pod.Name]
	return known.what == one.String() && now.Sub(known.at) < caughtUp
}

// reserve remembers the slots that are about to be written.
func (m *memory) reserve(nudges []nudge) {
	for _, one := range nudges {
		if number, given := one.slot(); given {
			m.slots.take(one.pod.Name, slot{uid: one.pod.UID, number: number})
		}
	}
}

// delivered remembers the patches sent to pods. A patch whose pod was gone or replaced has no version.
func (m *memory) delivered(nudges []nudge, now time.Time) {
	for _, one := range nudges {
		m.told.take(one.pod.Name, told{one.String(), now})
		number, given := one.slot()
		switch {
		case !given:
		case one.version == "":
			m.slots.drop(one.pod.Name)
		default:
			m.slots.take(one.pod.Name, slot{one.pod.UID, number, one.version})
		}
	}
}

// slotOf returns the slot that a pod was last given. Reading it from a stale cache could give the pod another slot, and make two pods
// trade places.
func (m *memory) slotOf(pod *corev1.Pod) int {
	given, known := m.slots[pod.Name]
	if !known {
		return slotOf(pod)
	}
	if given.uid == pod.UID && (given.version == "" || behind(pod.ResourceVersion, given.version)) {
		return given.number
	}
	m.slots.drop(pod.Name)
	return slotOf(pod)
}

func behind(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// forgetSlots drops the slots of pods that are gone.
func (m *memory) forgetSlots(present map[string]*corev1.Pod) {
	for worker := range m.slots {
		if present[worker] == nil {
			m.slots.drop(worker)
		}
	}
}

package workerpool

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// memory is what is kept of a pool between reconciles: indexes that would be costly to make again, writes that the cache has yet to hear
// of, and since when somebody is waited for. All of it can be lost at any time.
type memory struct {
	of      types.UID
	jobs    jobs
	kept    *kept             // the newest revision
	follows bool              // it, or makes one: any other is not worth to be kept, since a user may have made it
	turn    bool              // to hold long revisions
	sheets  map[string]*sheet // by name, as last read or written
	term    int64             // in which all sheets were last made ours; 0 for none
	asked   notes[asked]
	missing notes[time.Time] // workers without a pod, since when
	witness notes[witness]
	told    notes[told]
	revoked notes[revocation]
	slots   notes[slot]     // that were written, or are about to be
	leases  notes[sighting] // of workers whose pod is gone
	begun   time.Time       // when the pool last stopped being converged
	news    []event         // that is yet to be told
}

// event is something that has happened, and what it is about.
type event struct {
	reason, message string
	about           *corev1.ObjectReference
	warning         bool
}

// asked is a worker who has yet to confirm a version, and since when.
type asked struct {
	uid     string
	version int64
	since   time.Time
}

// told is what a pod was told last, and when: the cache may have yet to hear of it.
type told struct {
	what string
	at   time.Time
}

// slot is the number of a pod of a Deployment.
type slot struct {
	uid     types.UID // of the pod
	number  int
	version string // of the pod with that number; "" while it is not known to be written
}

// witness is a pod that was seen, past the cache, after a version was published.
type witness struct {
	version int64
	uid     string
}

func newMemory(of types.UID) *memory { return &memory{of: of, sheets: map[string]*sheet{}} }

// notes are taken on workers. There is no map while there are none, because one that has become empty still has room for eight, and most
// pools wait for nobody.
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

// short is how many jobs are read again sooner than it is worth to keep them, in each of a thousand pools.
const short = 256

// rest lets go of what can be made again of the cache, and of the revision and the ConfigMaps that stay.
func (m *memory) rest() {
	m.jobs = jobs{}
	if m.kept != nil {
		m.kept.index = nil
	}
	for name, known := range m.sheets {
		m.sheets[name] = &sheet{object: known.object, folded: true, fencedIn: known.fencedIn}
	}
}

// absentSince is since when a worker has no pod.
func (m *memory) absentSince(worker string, now time.Time) time.Time {
	since, known := m.missing[worker]
	if !known {
		since = now
		m.missing.take(worker, now)
	}
	return since
}

// waitingSince is since when a record's pod was to confirm its version.
func (m *memory) waitingSince(record assign.Record, now time.Time) time.Time {
	version := record.Lists[len(record.Lists)-1].Version
	known := m.asked[record.Worker]
	if known.uid != record.UID || known.version != version {
		known = asked{record.UID, version, now}
		m.asked.take(record.Worker, known)
	}
	return known.since
}

// settled forgets that a worker was waited for.
func (m *memory) settled(worker string) { m.asked.drop(worker) }

// succeeds tells whether a pod has taken the place of one that was there after the record's list was published: it began with that list.
func (m *memory) succeeds(pod *corev1.Pod, record assign.Record) bool {
	seen := m.witness[pod.Name]
	return seen.uid != "" && seen.uid != string(pod.UID) && seen.version == record.Lists[len(record.Lists)-1].Version
}

// caughtUp is when the cache has surely heard of a nudge.
const caughtUp = 5 * time.Second

// knows tells whether a pod was told the same just now.
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

// delivered remembers what pods were told. A pod that was gone, or was another one, has no version.
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

// slotOf is the slot that a pod was given last. Two pods would trade places if one of them got its slot anew because the cache has yet to
// hear of the slot that was written.
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

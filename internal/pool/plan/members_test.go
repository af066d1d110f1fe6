package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

func TestStateOfAWorkerInStatus(t *testing.T) {
	for reason, c := range map[string]struct {
		worker member
		want   v1alpha1.WorkerState
	}{
		"ready": {member{wanted: true, ready: true, inNewestRevision: true, Worker: assign.Worker{State: assign.Ready}},
			v1alpha1.WorkerReady},
		"waits for others": {member{wanted: true, ready: true, Worker: assign.Worker{State: assign.NotReady}}, v1alpha1.WorkerJoining},
		"starts":           {member{wanted: true, Worker: assign.Worker{State: assign.NotReady}}, v1alpha1.WorkerJoining},
		"away": {member{wanted: true, inNewestRevision: true, Worker: assign.Worker{State: assign.NotReady}},
			v1alpha1.WorkerNotReady},
		"failed": {member{wanted: true, inNewestRevision: true, failed: true, Worker: assign.Worker{State: assign.Leaving}},
			v1alpha1.WorkerNotReady},
		"lost its jobs, failed": {member{wanted: true, failed: true, Worker: assign.Worker{State: assign.NotReady}}, v1alpha1.WorkerNotReady},
		"scaled in": {member{ready: true, inNewestRevision: true, Worker: assign.Worker{State: assign.Leaving}},
			v1alpha1.WorkerLeaving},
	} {
		if got := c.worker.statusState(); got != c.want {
			t.Errorf("%s: %s, want %s", reason, got, c.want)
		}
	}
}

// newMember returns a worker that is in no revision.
func newMember(ready bool, since time.Time) member {
	state := assign.NotReady
	if ready {
		state = assign.Ready
	}
	return member{wanted: true, ready: ready, lastTransition: since, Worker: assign.Worker{State: state}}
}

func TestNewWorkersWaitForOthersThatStart(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	for reason, c := range map[string]struct {
		members []member
		first   bool
		wait    time.Duration
	}{
		"all are ready":               {[]member{newMember(true, ago(1)), newMember(true, ago(0))}, false, 0},
		"another starts":              {[]member{newMember(true, ago(1)), newMember(false, ago(1))}, false, 2 * time.Second},
		"another starts for too long": {[]member{newMember(true, ago(3)), newMember(false, ago(3))}, false, 0},
		"the first plan waits longer": {[]member{newMember(true, ago(3)), newMember(false, ago(3))}, true, 7 * time.Second},
		"the wait begins with the earliest": {[]member{newMember(true, ago(0)), newMember(true, ago(2)), newMember(false, ago(2))}, false,
			time.Second},
		"no one is ready": {[]member{newMember(false, ago(1))}, false, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			joining := memberSet{members: c.members}
			joining.batchJoining(newPool(), c.first, now)
			waits := joining.members[0].State == assign.NotReady && joining.members[0].ready
			if joining.requeueAfter != c.wait || waits != (c.wait > 0) {
				t.Errorf("waits %s, the first one waits: %t; want %s", joining.requeueAfter, waits, c.wait)
			}
		})
	}
}

// notReadyMembers returns workers that have not been ready for so many seconds, and others that are ready.
func notReadyMembers(now time.Time, ready int, seconds ...int) (members []member, veterans map[int]bool) {
	veterans = map[int]bool{}
	for n := range ready + len(seconds) {
		m := member{wanted: true, ready: n < ready, inNewestRevision: true, Worker: assign.Worker{Name: "w-" + string(rune('0'+n)), Ordinal: n}}
		if n >= ready {
			m.lastTransition = now.Add(-time.Duration(seconds[n-ready]) * time.Second)
		}
		members, veterans[n] = append(members, m), true
	}
	return members, veterans
}

// Jobs of a worker that is not ready move after failover.afterSeconds, unless more than failover.maxPercent of the workers are not ready.
func TestFailoverHasALimit(t *testing.T) {
	now := time.Unix(1000, 0)
	for reason, c := range map[string]struct {
		ready   int
		seconds []int
		change  func([]member, map[int]bool)
		fail    int
		frozen  bool
	}{
		"one of four, in time":           {3, []int{30}, nil, 1, false},
		"one of four, too early":         {3, []int{29}, nil, 0, false},
		"half of them":                   {2, []int{30, 40}, nil, 2, false},
		"more than half":                 {1, []int{30, 40, 50}, nil, 0, true},
		"more than half, some too early": {1, []int{30, 40, 2}, nil, 2, false},
		"the only one":                   {0, []int{30}, nil, 1, false},
		"more than half, one lost its own": {1, []int{30, 40, 50}, func(members []member, _ map[int]bool) { members[3].inNewestRevision = false },
			0, true},
		"one that never took part": {1, []int{30}, func(_ []member, knownOrdinals map[int]bool) { knownOrdinals[1] = false }, 0, false},
		"one that is scaled in":    {1, []int{30}, func(members []member, _ map[int]bool) { members[1].wanted = false }, 0, false},
	} {
		t.Run(reason, func(t *testing.T) {
			members, knownOrdinals := notReadyMembers(now, c.ready, c.seconds...)
			if c.change != nil {
				c.change(members, knownOrdinals)
			}
			set := memberSet{members: members}
			set.failOver(newPool(), len(members), knownOrdinals, now)
			failed := 0
			for _, m := range set.members {
				if m.State == assign.Leaving {
					failed++
				}
			}
			if failed != c.fail || (set.failoverProblem != nil) != c.frozen {
				t.Errorf("%d lose their jobs, frozen %v", failed, set.failoverProblem)
			}
			if c.frozen && !strings.HasPrefix(set.failoverProblem.Message, "3 of 4 workers were not ready for 30s, the first is w-1") {
				t.Errorf("frozen: %s", set.failoverProblem.Message)
			}
		})
	}
}

// A worker that was away and came back has its full time again.
func TestTimeOfAbsenceBeginsAnew(t *testing.T) {
	pool, known, begun := newPool(), &Clocks{}, time.Unix(1000, 0)
	snapshot := Snapshot{Workload: newWorkload(v1alpha1.WorkloadStatefulSet, 2)}
	absentSince := func(seconds int, pods ...*corev1.Pod) time.Time {
		snapshot.Pods = pods
		return buildMembers(pool, snapshot, known, begun.Add(time.Duration(seconds)*time.Second)).members[1].lastTransition
	}
	if first, still := absentSince(0), absentSince(10); !first.Equal(begun) || !still.Equal(begun) {
		t.Errorf("absent since %s, then %s", first, still)
	}
	absentSince(20, podNamed("w-1"))
	if got := absentSince(30); !got.Equal(begun.Add(30 * time.Second)) {
		t.Errorf("absent since %s after it was back", got)
	}
}

func TestPodThatTerminatesIsNotReady(t *testing.T) {
	pod, deleted := podNamed("w-0"), metav1.NewTime(time.Unix(2000, 0))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}}
	if ready, since := PodReadiness(pod); !ready || since.Unix() != 1000 {
		t.Errorf("ready %t since %s", ready, since)
	}
	pod.DeletionTimestamp = &deleted
	if ready, since := PodReadiness(pod); ready || !since.Equal(deleted.Time) {
		t.Errorf("terminating: ready %t since %s", ready, since)
	}
}

// Status names the revision in which the list of a worker last changed.
func TestRevisionOfAWorkersList(t *testing.T) {
	revision := func(number int64, jobs ...string) StoredRevision {
		return StoredRevision{Number: number,
			Data: codec.Revision{Workers: []codec.RevisionShare{{Ordinal: 0, Jobs: []string{"z"}}, {Ordinal: 1, Jobs: jobs}}}}
	}
	d := &planner{snapshot: Snapshot{History: []StoredRevision{revision(3, "a"), revision(4, "b"), revision(5, "b"), revision(6, "b")}}}
	for ordinal, want := range map[int]int64{0: 3, 1: 4, 2: 0} {
		if got := d.listChangedIn(member{Worker: assign.Worker{Ordinal: ordinal}}); got != want {
			t.Errorf("worker %d: revision %d, want %d", ordinal, got, want)
		}
	}
	next := revision(7, "c")
	d.NewRevision = &next
	if got := d.listChangedIn(member{Worker: assign.Worker{Ordinal: 1}}); got != 7 {
		t.Errorf("a list that changes now is of revision %d", got)
	}
}

// A pod with another UID is another pod, and a deleted pod has no slot.
func TestSlotsAreRememberedByUID(t *testing.T) {
	m, pod := &Clocks{}, podNamed("w-a")
	pod.ResourceVersion = "5"
	n := Nudge{Pod: pod, Labels: map[string]string{v1alpha1.LabelSlot: "3"}}
	m.ReserveSlots([]Nudge{n})
	if got := m.slotOf(pod); got != 3 {
		t.Errorf("slot %d, which may have been written", got)
	}
	n.ResourceVersion = "6"
	m.RecordNudges([]Nudge{n}, time.Unix(1000, 0))
	if got := m.slotOf(pod); got != 3 {
		t.Errorf("slot %d, which the cache has yet to hear of", got)
	}
	another := podNamed("w-a")
	another.UID, another.ResourceVersion = "another", "5"
	if got := m.slotOf(another); got != assign.NoSlot {
		t.Errorf("another pod of the same name has slot %d", got)
	}
	m.ReserveSlots([]Nudge{n})
	if m.forgetSlots(nil); m.Slots != nil {
		t.Errorf("slots %v of pods that are gone", m.Slots)
	}
	m.ReserveSlots([]Nudge{n})
	n.ResourceVersion = ""
	if m.RecordNudges([]Nudge{n}, time.Unix(1000, 0)); m.Slots != nil {
		t.Errorf("slots %v of pods that could not be told", m.Slots)
	}
}

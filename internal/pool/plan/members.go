package plan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// joinBatchWindow is how long a new worker waits for others that are starting: one plan for all moves fewer jobs than one for each.
const joinBatchWindow = 3 * time.Second

// member is a worker or its slot.
type member struct {
	assign.Worker
	pod              *corev1.Pod // nil if there is none
	ready            bool
	lastTransition   time.Time // when it became ready, or stopped being ready
	inNewestRevision bool      // it is in the newest revision
	wanted           bool      // the workload should have it
	failed           bool      // it was not ready for too long
}

// statusState returns the member's state as shown in status.
func (m member) statusState() v1alpha1.WorkerState {
	switch {
	case !m.wanted:
		return v1alpha1.WorkerLeaving
	case m.ready && m.State == assign.Ready:
		return v1alpha1.WorkerReady
	case !m.inNewestRevision && !m.failed:
		return v1alpha1.WorkerJoining
	}
	return v1alpha1.WorkerNotReady
}

// memberSet is all workers that participate or should participate.
type memberSet struct {
	members         []member      // by ordinal
	requeueAfter    time.Duration // until a worker may join or fail
	failoverProblem *Problem
}

// buildMembers finds the members, and decides which participate.
func buildMembers(pool *v1alpha1.WorkerPool, snapshot Snapshot, clocks *Clocks, now time.Time) memberSet {
	members := memberSet{}
	if snapshot.Workload.usesSlots() {
		members.members = deploymentMembers(snapshot, clocks)
	} else {
		members.members = statefulSetMembers(snapshot)
	}
	wanted, newest := snapshot.wantedReplicas(pool), snapshot.newestRevision()
	for n := range members.members {
		m := &members.members[n]
		m.Capacity = int(pool.Spec.CapacityPerWorker)
		m.wanted = m.Ordinal >= snapshot.Workload.FirstOrdinal && m.Ordinal < snapshot.Workload.FirstOrdinal+wanted
		_, m.inNewestRevision = newest.ShareOf(m.Ordinal)
		m.ready, m.lastTransition = PodReadiness(m.pod)
		if m.pod == nil {
			m.lastTransition = clocks.absentSince(m.Name, now)
		} else {
			clocks.missingSince.remove(m.Name)
		}
		m.State = memberState(*m)
	}
	members.batchJoining(pool, newest == nil, now)
	members.failOver(pool, wanted, snapshot.knownOrdinals(), now)
	return members
}

func memberState(m member) assign.State {
	switch {
	case !m.wanted:
		return assign.Leaving
	case m.ready:
		return assign.Ready
	}
	return assign.NotReady
}

// statefulSetMembers returns the pods of a StatefulSet, its expected pods, and those that may hold jobs.
func statefulSetMembers(snapshot Snapshot) []member {
	members := map[int]*member{}
	add := func(ordinal int) *member {
		if members[ordinal] == nil {
			members[ordinal] = &member{Worker: assign.Worker{Name: snapshot.Workload.podName(ordinal), Ordinal: ordinal}}
		}
		return members[ordinal]
	}
	for ordinal := snapshot.Workload.FirstOrdinal; ordinal < snapshot.Workload.FirstOrdinal+snapshot.Workload.Replicas; ordinal++ {
		add(ordinal)
	}
	for _, pod := range snapshot.Pods {
		if ordinal := snapshot.Workload.ordinalOf(pod.Name); ordinal >= 0 {
			add(ordinal).pod = pod
		}
	}
	for _, entry := range snapshot.Published.Entries {
		if ordinal := snapshot.Workload.ordinalOf(entry.Worker); ordinal >= 0 {
			add(ordinal)
		}
	}
	return sortMembers(members)
}

// deploymentMembers returns the pods of a Deployment that have a slot, and the slots whose pod is gone.
func deploymentMembers(snapshot Snapshot, clocks *Clocks) []member {
	pods := make([]assign.Pod, 0, len(snapshot.Pods))
	podsByName := snapshot.podsByName()
	clocks.forgetSlots(podsByName)
	for _, pod := range snapshot.Pods {
		pods = append(pods, assign.Pod{Name: pod.Name, Slot: clocks.slotOf(pod), Created: pod.CreationTimestamp.Unix()})
	}
	members := map[int]*member{}
	for _, pod := range assign.Slots(pods, snapshot.Workload.Replicas) {
		if pod.Slot != assign.NoSlot {
			members[pod.Slot] = &member{Worker: assign.Worker{Name: pod.Name, Ordinal: pod.Slot}, pod: podsByName[pod.Name]}
		}
	}
	for _, share := range snapshot.newestRevision().Shares() {
		if members[share.Ordinal] == nil {
			members[share.Ordinal] = &member{Worker: assign.Worker{Name: share.Worker, Ordinal: share.Ordinal}}
		}
	}
	return sortMembers(members)
}

func sortMembers(members map[int]*member) []member {
	list := make([]member, 0, len(members))
	for _, m := range members {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b member) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return list
}

func slotOf(pod *corev1.Pod) int {
	slot, err := strconv.Atoi(pod.Labels[v1alpha1.LabelSlot])
	if err != nil {
		return assign.NoSlot
	}
	return slot
}

// PodReadiness returns whether a pod is ready and not terminating, and since when.
func PodReadiness(pod *corev1.Pod) (ready bool, since time.Time) {
	if pod == nil {
		return false, time.Time{}
	}
	since = pod.CreationTimestamp.Time
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			ready = condition.Status == corev1.ConditionTrue
			if !condition.LastTransitionTime.IsZero() {
				since = condition.LastTransitionTime.Time
			}
		}
	}
	if ready && pod.DeletionTimestamp != nil {
		return false, pod.DeletionTimestamp.Time
	}
	return ready, since
}

// batchJoining lets new workers wait for others that are starting. Without a revision it waits as long as workers have to load a list.
func (s *memberSet) batchJoining(pool *v1alpha1.WorkerPool, first bool, now time.Time) {
	window := joinBatchWindow
	if first {
		window = time.Duration(pool.Spec.Refresh.DeadlineSeconds) * time.Second
	}
	var joining []int
	starting, earliest := false, now
	for n, m := range s.members {
		if m.inNewestRevision || !m.wanted {
			continue
		}
		if !m.ready {
			starting = true
			continue
		}
		joining = append(joining, n)
		if m.lastTransition.Before(earliest) {
			earliest = m.lastTransition
		}
	}
	remaining := earliest.Add(window).Sub(now)
	if !starting || len(joining) == 0 || remaining <= 0 {
		return
	}
	s.requeueWithin(remaining)
	for _, n := range joining {
		s.members[n].State = assign.NotReady
	}
}

// hasStartingMember reports whether a new worker is still within its start-up grace period.
func (s *memberSet) hasStartingMember(pool *v1alpha1.WorkerPool, now time.Time) bool {
	after := time.Duration(pool.Spec.Failover.AfterSeconds) * time.Second
	return slices.ContainsFunc(s.members, func(m member) bool {
		return m.wanted && !m.inNewestRevision && m.State == assign.NotReady && m.lastTransition.Add(after).After(now)
	})
}

// requeueWithin requests another reconcile.
func (s *memberSet) requeueWithin(delay time.Duration) {
	if s.requeueAfter == 0 || delay < s.requeueAfter {
		s.requeueAfter = delay
	}
}

// failOver takes the jobs from workers that were not ready for too long, unless there are too many at once. Workers that already lost
// their jobs and are not back count too.
func (s *memberSet) failOver(pool *v1alpha1.WorkerPool, size int, knownOrdinals map[int]bool, now time.Time) {
	after := time.Duration(pool.Spec.Failover.AfterSeconds) * time.Second
	var failing []int
	down := 0
	for n, m := range s.members {
		if m.ready || !m.wanted || !knownOrdinals[m.Ordinal] {
			continue
		}
		if remaining := m.lastTransition.Add(after).Sub(now); remaining > 0 {
			s.requeueWithin(remaining)
			continue
		}
		down++
		s.members[n].failed = true
		if m.inNewestRevision {
			failing = append(failing, n)
		}
	}
	if maxFailed := max(1, size*int(pool.Spec.Failover.MaxPercent)/100); down > maxFailed && len(failing) > 0 {
		s.failoverProblem = NewProblem(v1alpha1.ReasonFailoverFrozen,
			"%d of %d workers were not ready for %s, the first is %s, and at most %d (%d %%) may lose their jobs at once: nothing moves until some are back",
			down, size, after, s.members[failing[0]].Name, maxFailed, pool.Spec.Failover.MaxPercent)
		return
	}
	for _, n := range failing {
		s.members[n].State = assign.Leaving
	}
}

// assignWorkers returns the members for the engine.
func (s *memberSet) assignWorkers() []assign.Worker {
	workers := make([]assign.Worker, len(s.members))
	for n, m := range s.members {
		workers[n] = m.Worker
	}
	return workers
}

// readyCount counts the members that participate.
func (s *memberSet) readyCount() int {
	count := 0
	for _, m := range s.members {
		if m.ready && m.wanted {
			count++
		}
	}
	return count
}

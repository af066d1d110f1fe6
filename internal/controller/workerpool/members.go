package workerpool

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
)

// together is how long a new worker waits for others that are starting: one plan for all moves fewer jobs than one for each.
const together = 3 * time.Second

// member is a worker or its slot.
type member struct {
	assign.Worker
	pod    *corev1.Pod // nil if there is none
	ready  bool
	since  time.Time // when it became ready, or stopped being ready
	joined bool      // it is in the newest revision
	wanted bool      // the workload should have it
	failed bool      // it was not ready for too long
}

// shown returns the member's state as shown in status.
func (m member) shown() v1alpha1.WorkerState {
	switch {
	case !m.wanted:
		return v1alpha1.WorkerLeaving
	case m.ready && m.State == assign.Ready:
		return v1alpha1.WorkerReady
	case !m.joined && !m.failed:
		return v1alpha1.WorkerJoining
	}
	return v1alpha1.WorkerNotReady
}

// crew is all workers that participate or should participate.
type crew struct {
	members []member      // by ordinal
	wait    time.Duration // until a worker may join or fail
	frozen  *refusal
}

// enlist finds the members, and decides which participate.
func enlist(pool *v1alpha1.WorkerPool, world world, memory *memory, now time.Time) crew {
	c := crew{}
	if world.workload.slotted() {
		c.members = holders(world, memory)
	} else {
		c.members = numbered(world)
	}
	wanted, newest := world.wanted(pool), world.newest()
	for n := range c.members {
		m := &c.members[n]
		m.Capacity = int(pool.Spec.CapacityPerWorker)
		m.wanted = m.Ordinal >= world.workload.start && m.Ordinal < world.workload.start+wanted
		_, m.joined = newest.ShareOf(m.Ordinal)
		m.ready, m.since = readiness(m.pod)
		if m.pod == nil {
			m.since = memory.absentSince(m.Name, now)
		} else {
			memory.missing.drop(m.Name)
		}
		m.State = stateOf(*m)
	}
	c.gather(pool, newest == nil, now)
	c.failover(pool, wanted, world.veterans(), now)
	return c
}

func stateOf(m member) assign.State {
	switch {
	case !m.wanted:
		return assign.Leaving
	case m.ready:
		return assign.Ready
	}
	return assign.NotReady
}

// numbered returns the pods of a StatefulSet, its expected pods, and those that may hold jobs.
func numbered(world world) []member {
	members := map[int]*member{}
	add := func(ordinal int) *member {
		if members[ordinal] == nil {
			members[ordinal] = &member{Worker: assign.Worker{Name: fmt.Sprintf("%s-%d", world.workload.object.GetName(), ordinal), Ordinal: ordinal}}
		}
		return members[ordinal]
	}
	for ordinal := world.workload.start; ordinal < world.workload.start+world.workload.replicas; ordinal++ {
		add(ordinal)
	}
	for _, pod := range world.pods {
		if ordinal := world.workload.ordinal(pod.Name); ordinal >= 0 {
			add(ordinal).pod = pod
		}
	}
	for _, entry := range world.published.entries {
		if ordinal := world.workload.ordinal(entry.Worker); ordinal >= 0 {
			add(ordinal)
		}
	}
	return sorted(members)
}

// holders returns the pods of a Deployment that have a slot, and the slots whose pod is gone.
func holders(world world, memory *memory) []member {
	pods := make([]assign.Pod, 0, len(world.pods))
	present := world.byName()
	memory.forgetSlots(present)
	for _, pod := range world.pods {
		pods = append(pods, assign.Pod{Name: pod.Name, Slot: memory.slotOf(pod), Created: pod.CreationTimestamp.Unix()})
	}
	members := map[int]*member{}
	for _, pod := range assign.Slots(pods, world.workload.replicas) {
		if pod.Slot != assign.NoSlot {
			members[pod.Slot] = &member{Worker: assign.Worker{Name: pod.Name, Ordinal: pod.Slot}, pod: present[pod.Name]}
		}
	}
	for _, share := range world.newest().Shares() {
		if members[share.Ordinal] == nil {
			members[share.Ordinal] = &member{Worker: assign.Worker{Name: share.Worker, Ordinal: share.Ordinal}}
		}
	}
	return sorted(members)
}

func sorted(members map[int]*member) []member {
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

// readiness returns whether a pod is ready and not terminating, and since when.
func readiness(pod *corev1.Pod) (ready bool, since time.Time) {
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

// gather lets new workers wait for others that are starting. Without a revision it waits as long as workers have to load a list.
func (c *crew) gather(pool *v1alpha1.WorkerPool, first bool, now time.Time) {
	patience := together
	if first {
		patience = time.Duration(pool.Spec.Refresh.DeadlineSeconds) * time.Second
	}
	var joining []int
	starting, earliest := false, now
	for n, m := range c.members {
		if m.joined || !m.wanted {
			continue
		}
		if !m.ready {
			starting = true
			continue
		}
		joining = append(joining, n)
		if m.since.Before(earliest) {
			earliest = m.since
		}
	}
	left := earliest.Add(patience).Sub(now)
	if !starting || len(joining) == 0 || left <= 0 {
		return
	}
	c.await(left)
	for _, n := range joining {
		c.members[n].State = assign.NotReady
	}
}

// gathering reports whether a new worker is still within its start-up grace period.
func (c *crew) gathering(pool *v1alpha1.WorkerPool, now time.Time) bool {
	after := time.Duration(pool.Spec.Failover.AfterSeconds) * time.Second
	return slices.ContainsFunc(c.members, func(m member) bool {
		return m.wanted && !m.joined && m.State == assign.NotReady && m.since.Add(after).After(now)
	})
}

// await requests another reconcile.
func (c *crew) await(delay time.Duration) {
	if c.wait == 0 || delay < c.wait {
		c.wait = delay
	}
}

// failover takes the jobs from workers that were not ready for too long, unless there are too many at once. Workers that already lost
// their jobs and are not back count too.
func (c *crew) failover(pool *v1alpha1.WorkerPool, size int, veterans map[int]bool, now time.Time) {
	after := time.Duration(pool.Spec.Failover.AfterSeconds) * time.Second
	var failing []int
	down := 0
	for n, m := range c.members {
		if m.ready || !m.wanted || !veterans[m.Ordinal] {
			continue
		}
		if left := m.since.Add(after).Sub(now); left > 0 {
			c.await(left)
			continue
		}
		down++
		c.members[n].failed = true
		if m.joined {
			failing = append(failing, n)
		}
	}
	if most := max(1, size*int(pool.Spec.Failover.MaxPercent)/100); down > most && len(failing) > 0 {
		c.frozen = refuse(v1alpha1.ReasonFailoverFrozen,
			"%d of %d workers were not ready for %s, the first is %s, and at most %d (%d %%) may lose their jobs at once: nothing moves until some are back",
			down, size, after, c.members[failing[0]].Name, most, pool.Spec.Failover.MaxPercent)
		return
	}
	for _, n := range failing {
		c.members[n].State = assign.Leaving
	}
}

// workers returns the members for the engine.
func (c *crew) workers() []assign.Worker {
	all := make([]assign.Worker, len(c.members))
	for n, m := range c.members {
		all[n] = m.Worker
	}
	return all
}

// ready counts the members that participate.
func (c *crew) ready() int {
	count := 0
	for _, m := range c.members {
		if m.ready && m.wanted {
			count++
		}
	}
	return count
}

// newest returns the newest revision, nil if there is none.
func (w world) newest() *assign.Revision {
	if len(w.history) == 0 {
		return nil
	}
	return w.history[len(w.history)-1].index
}

// wanted returns the number of workers: the pool's while it scales in, otherwise the workload's.
func (w world) wanted(pool *v1alpha1.WorkerPool) int {
	if pool.Spec.Replicas != nil {
		return min(int(*pool.Spec.Replicas), w.workload.replicas)
	}
	return w.workload.replicas
}

// veterans returns the ordinals that are in any stored revision.
func (w world) veterans() map[int]bool {
	known := map[int]bool{}
	for _, revision := range w.history {
		for _, share := range revision.data.Workers {
			known[share.Ordinal] = true
		}
	}
	return known
}

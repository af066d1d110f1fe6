package dispatch

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/swarm/payload"
)

// A Budget is how much of a namespace's unfinished tasks the dispatcher holds in memory. A task beyond it is not held: it waits in
// its namespace's line, which holds only names, and is looked at again when there is room for it. A task that an agent has is
// always held.
type Budget struct {
	Tasks int   // 0: no limit
	Bytes int64 // 0: no limit
}

const (
	// taskOverheadBytes is what a task counts without its name, its capabilities and its payload. It takes at most that much memory.
	taskOverheadBytes = 1 << 10
	// maxReservations is how many tasks of a namespace are invited at the same time.
	maxReservations = 100
	// reservationTTL is how long room is kept for an invited task. It may be paused, and never come.
	reservationTTL = 30 * time.Second
	// waitReportInterval is the pause between tasks of a namespace when their wait for room is reported: there may be many, and each costs a
	// write.
	waitReportInterval = 20 * time.Millisecond
)

// namespaceUsage is how much of its budget a namespace has used.
type namespaceUsage struct {
	tasks         int
	bytes         int64
	queue         waitQueue
	reservations  map[string]reservation
	reservedBytes int64 // bytes of the invited tasks
	lastReport    time.Time
}

// A reservation keeps room for a task that was asked to come again.
type reservation struct {
	bytes     int64
	expiresAt time.Time
}

func (d *Dispatcher) usageOf(namespace string) *namespaceUsage {
	usage := d.usage[namespace]
	if usage == nil {
		usage = &namespaceUsage{reservations: map[string]reservation{}}
		d.usage[namespace] = usage
	}
	return usage
}

// sizeOf returns how much a task counts. A payload that is not kept counts as well: it is in memory while it is sent, and the
// response to a write includes it.
func sizeOf(task *v1alpha1.Task) int64 {
	const header = 16 // of a string
	size := taskOverheadBytes + len(task.Name)
	for _, capability := range task.Spec.Capabilities {
		size += header + len(capability)
	}
	bytes, _ := payload.Size(task)
	return int64(size + bytes)
}

// mayAdmit reports whether a task that the dispatcher does not hold may be held from now on. Tasks that already wait come first.
func (d *Dispatcher) mayAdmit(task *v1alpha1.Task) bool {
	if len(task.Status.AssignedAgents) > 0 || d.orphanedTasks[client.ObjectKeyFromObject(task)] > 0 {
		return true // agents have it
	}
	usage := d.usageOf(task.Namespace)
	_, invited := usage.reservations[task.Name]
	return invited || len(usage.queue.heap) == 0 && usage.exceededLimit(d.config.Budget, sizeOf(task)) == ""
}

// exceededLimit returns the limit that would be exceeded with another task, or "" if there is room for it. There is always room for one.
func (u *namespaceUsage) exceededLimit(budget Budget, size int64) limit.Limit {
	tasks := u.tasks + len(u.reservations)
	switch {
	case tasks == 0:
		return ""
	case budget.Tasks > 0 && tasks >= budget.Tasks:
		return limit.TasksPerNamespace
	case budget.Bytes > 0 && u.bytes+u.reservedBytes+size > budget.Bytes:
		return limit.BytesPerNamespace
	}
	return ""
}

// charge counts a task that is held from now on.
func (d *Dispatcher) charge(state *taskState, task *v1alpha1.Task) {
	usage := d.usageOf(state.name.Namespace)
	usage.tasks++
	state.size = sizeOf(task)
	usage.bytes += state.size
	d.dequeueWaiting(state.name)
}

// updateTask records a newer version of a task, which may have another size.
func (d *Dispatcher) updateTask(state *taskState, task *v1alpha1.Task) {
	state.update(task)
	if assignment, given := state.assignment, task.Status.AssignedAgents; assignment != nil && len(given) > 0 &&
		given[0].Epoch == assignment.epoch {
		d.recordStoredLease(assignment, time.Duration(given[0].LeaseSeconds)*time.Second)
	}
	size := sizeOf(task)
	d.usageOf(state.name.Namespace).bytes += size - state.size
	state.size = size
}

// uncharge gives the room of a task to waiting ones.
func (d *Dispatcher) uncharge(state *taskState) {
	usage := d.usageOf(state.name.Namespace)
	usage.tasks--
	usage.bytes -= state.size
	d.reserveRoom(state.name.Namespace)
}

// deferAdmission makes a task wait for room, and returns what to write about it.
func (d *Dispatcher) deferAdmission(task *v1alpha1.Task, input TaskInput) TaskView {
	if until := d.unadmittedEndDeferredUntil(task, input); !until.IsZero() {
		return TaskView{DeferredUntil: until}
	}
	waiting := d.enqueueWaiting(task)
	d.reserveRoom(task.Namespace)
	return TaskView{
		Wait:         &Wait{Reason: v1alpha1.ReasonNamespaceLimitReached, Message: d.config.Budget.message(task.Namespace, waiting.limit)},
		WaitingSince: time.Unix(0, waiting.reportAt).Add(-WaitReportDelay(v1alpha1.ReasonNamespaceLimitReached)),
	}
}

// unadmittedEndDeferredUntil is endDeferredUntil for a task that is not held.
func (d *Dispatcher) unadmittedEndDeferredUntil(task *v1alpha1.Task, input TaskInput) time.Time {
	swarm := d.swarms[types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.SwarmRef.Name}]
	if swarm == nil || !input.WillEnd || task.Status.Epoch > 0 {
		return time.Time{}
	}
	return d.recoveringUntil(swarm, time.Now())
}

func (b Budget) message(namespace string, exceeded limit.Limit) string {
	if exceeded == limit.BytesPerNamespace {
		return fmt.Sprintf("the unfinished tasks of namespace %q take as much memory as limits.bytesPerNamespace allows (%s). This Task is taken up when "+
			"others have finished: create fewer at a time, or put payloads into ConfigMaps (payloadFrom)", namespace,
			resource.NewQuantity(b.Bytes, resource.BinarySI))
	}
	return fmt.Sprintf("namespace %q has as many unfinished tasks as limits.tasksPerNamespace allows (%d). This Task is taken up when others have finished: "+
		"create fewer at a time", namespace, b.Tasks)
}

// enqueueWaiting puts a task at its place in the line of its namespace, and counts it, unless it is there already.
func (d *Dispatcher) enqueueWaiting(task *v1alpha1.Task) *waitingTask {
	usage := d.usageOf(task.Namespace)
	if existing := usage.queue.byName[task.Name]; existing != nil {
		return existing
	}
	size, now := sizeOf(task), time.Now()
	exceeded := usage.exceededLimit(d.config.Budget, size)
	if exceeded == "" { // there is room, but other tasks wait for it
		exceeded = usage.queue.heap[0].limit
	}
	d.config.Refusals.Count(exceeded)
	usage.lastReport = latest(usage.lastReport.Add(waitReportInterval), now.Add(WaitReportDelay(v1alpha1.ReasonNamespaceLimitReached)))
	waiting := &waitingTask{name: task.Name, created: task.CreationTimestamp.UnixNano(), bytes: size, reportAt: usage.lastReport.UnixNano(),
		limit: exceeded}
	usage.queue.add(waiting)
	return waiting
}

// dequeueWaiting removes a task from the line, or withdraws its invitation.
func (d *Dispatcher) dequeueWaiting(name types.NamespacedName) {
	usage := d.usage[name.Namespace]
	if usage == nil {
		return
	}
	usage.queue.remove(name.Name)
	if reservation, found := usage.reservations[name.Name]; found {
		usage.reservedBytes -= reservation.bytes
		delete(usage.reservations, name.Name)
	}
	d.reserveRoom(name.Namespace)
}

// reserveRoom asks the oldest waiting tasks to come again, as many as there is room for.
func (d *Dispatcher) reserveRoom(namespace string) {
	usage := d.usageOf(namespace)
	for len(usage.queue.heap) > 0 && len(usage.reservations) < maxReservations &&
		usage.exceededLimit(d.config.Budget, usage.queue.heap[0].bytes) == "" {
		next := usage.queue.next()
		usage.reservations[next.name] = reservation{bytes: next.bytes, expiresAt: time.Now().Add(reservationTTL)}
		usage.reservedBytes += next.bytes
		d.config.Tasks.After(types.NamespacedName{Namespace: namespace, Name: next.name}, 0)
	}
	if usage.tasks == 0 && len(usage.queue.heap) == 0 && len(usage.reservations) == 0 {
		delete(d.usage, namespace)
	}
}

// expireReservations gives the room of invited tasks that did not come to others, and returns when to look again. A task that
// comes later joins the line again.
func (d *Dispatcher) expireReservations(now time.Time) time.Time {
	var next time.Time
	for namespace, usage := range d.usage {
		expired := false
		for name, reservation := range usage.reservations {
			if now.Before(reservation.expiresAt) {
				next = earliest(next, reservation.expiresAt)
				continue
			}
			usage.reservedBytes -= reservation.bytes
			delete(usage.reservations, name)
			expired = true
		}
		if expired {
			d.reserveRoom(namespace)
		}
	}
	return next
}

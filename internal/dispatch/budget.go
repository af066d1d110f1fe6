package dispatch

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/payload"
)

// A Budget is how much of a namespace's unfinished tasks the board holds in memory. A task beyond it is not held: it waits in
// its namespace's line, which holds only names, and is looked at again when there is room for it. A task that an agent has is
// always held.
type Budget struct {
	Tasks int   // 0: no limit
	Bytes int64 // 0: no limit
}

const (
	// entryBytes is what a task counts without its name, its capabilities and its payload. It takes at most that much memory.
	entryBytes = 1 << 10
	// mostInvited is how many tasks of a namespace are invited at the same time.
	mostInvited = 100
	// invitedFor is how long room is kept for an invited task. It may be paused, and never come.
	invitedFor = 30 * time.Second
	// toldEvery is the pause between tasks of a namespace when their wait for room is reported: there may be many, and each costs a write.
	toldEvery = 20 * time.Millisecond
)

// usage is how much of its budget a namespace has used.
type usage struct {
	tasks    int
	bytes    int64
	line     line
	invited  map[string]invitation
	promised int64 // bytes of the invited tasks
	lastTold time.Time
}

// An invitation keeps room for a task that was asked to come again.
type invitation struct {
	bytes int64
	until time.Time
}

func (b *Board) usageOf(namespace string) *usage {
	known := b.usage[namespace]
	if known == nil {
		known = &usage{invited: map[string]invitation{}}
		b.usage[namespace] = known
	}
	return known
}

// sizeOf returns how much a task counts. A payload that is not kept counts as well: it is in memory while it is sent, and the
// response to a write includes it.
func sizeOf(task *v1alpha1.Task) int64 {
	const header = 16 // of a string
	size := entryBytes + len(task.Name)
	for _, capability := range task.Spec.Capabilities {
		size += header + len(capability)
	}
	bytes, _ := payload.Size(task)
	return int64(size + bytes)
}

// mayEnter reports whether a task that the board does not hold may be held from now on. Tasks that already wait come first.
func (b *Board) mayEnter(task *v1alpha1.Task) bool {
	if len(task.Status.AssignedAgents) > 0 || b.strayed[client.ObjectKeyFromObject(task)] > 0 {
		return true // agents have it
	}
	of := b.usageOf(task.Namespace)
	_, invited := of.invited[task.Name]
	return invited || len(of.line.waiting) == 0 && of.exceeds(b.config.Budget, sizeOf(task)) == ""
}

// exceeds returns the limit that would be exceeded with another task, or "" if there is room for it. There is always room for one.
func (u *usage) exceeds(budget Budget, size int64) limit.Limit {
	tasks := u.tasks + len(u.invited)
	switch {
	case tasks == 0:
		return ""
	case budget.Tasks > 0 && tasks >= budget.Tasks:
		return limit.TasksPerNamespace
	case budget.Bytes > 0 && u.bytes+u.promised+size > budget.Bytes:
		return limit.BytesPerNamespace
	}
	return ""
}

// charge counts a task that is held from now on.
func (b *Board) charge(of *entry, task *v1alpha1.Task) {
	used := b.usageOf(of.name.Namespace)
	used.tasks++
	of.size = sizeOf(task)
	used.bytes += of.size
	b.leaveLine(of.name)
}

// learn records a newer version of a task, which may have another size.
func (b *Board) learn(of *entry, task *v1alpha1.Task) {
	of.learn(task)
	if held, given := of.held, task.Status.AssignedAgents; held != nil && len(given) > 0 && given[0].Epoch == held.epoch {
		b.isStoredWith(held, time.Duration(given[0].LeaseSeconds)*time.Second)
	}
	size := sizeOf(task)
	b.usageOf(of.name.Namespace).bytes += size - of.size
	of.size = size
}

// discharge gives the room of a task to waiting ones.
func (b *Board) discharge(of *entry) {
	used := b.usageOf(of.name.Namespace)
	used.tasks--
	used.bytes -= of.size
	b.invite(of.name.Namespace)
}

// turnAway makes a task wait for room, and returns what to write about it.
func (b *Board) turnAway(task *v1alpha1.Task, brief Brief) View {
	if until := b.endWaitsUnheld(task, brief); !until.IsZero() {
		return View{HeldBack: until}
	}
	waits := b.joinLine(task)
	b.invite(task.Namespace)
	return View{
		Wait:  &Wait{Reason: v1alpha1.ReasonNamespaceLimitReached, Message: b.config.Budget.message(task.Namespace, waits.limit)},
		Since: time.Unix(0, waits.told).Add(-ToldAfter(v1alpha1.ReasonNamespaceLimitReached)),
	}
}

// endWaitsUnheld is endWaits for a task that is not held.
func (b *Board) endWaitsUnheld(task *v1alpha1.Task, brief Brief) time.Time {
	swarm := b.swarms[types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.SwarmRef.Name}]
	if swarm == nil || !brief.Ends || task.Status.Epoch > 0 {
		return time.Time{}
	}
	return b.heldBack(swarm, time.Now())
}

func (b Budget) message(namespace string, reached limit.Limit) string {
	if reached == limit.BytesPerNamespace {
		return fmt.Sprintf("the unfinished tasks of namespace %q take as much memory as limits.bytesPerNamespace allows (%s). This Task is taken up when "+
			"others have finished: create fewer at a time, or put payloads into ConfigMaps (payloadFrom)", namespace, resource.NewQuantity(b.Bytes, resource.BinarySI))
	}
	return fmt.Sprintf("namespace %q has as many unfinished tasks as limits.tasksPerNamespace allows (%d). This Task is taken up when others have finished: "+
		"create fewer at a time", namespace, b.Tasks)
}

// joinLine puts a task at its place in the line of its namespace, and counts it, unless it is there already.
func (b *Board) joinLine(task *v1alpha1.Task) *waiter {
	of := b.usageOf(task.Namespace)
	if known := of.line.byName[task.Name]; known != nil {
		return known
	}
	size, now := sizeOf(task), time.Now()
	reached := of.exceeds(b.config.Budget, size)
	if reached == "" { // there is room, but other tasks wait for it
		reached = of.line.waiting[0].limit
	}
	b.config.Refusals.Count(reached)
	of.lastTold = later(of.lastTold.Add(toldEvery), now.Add(ToldAfter(v1alpha1.ReasonNamespaceLimitReached)))
	joined := &waiter{name: task.Name, created: task.CreationTimestamp.UnixNano(), bytes: size, told: of.lastTold.UnixNano(), limit: reached}
	of.line.add(joined)
	return joined
}

// leaveLine removes a task from the line, or withdraws its invitation.
func (b *Board) leaveLine(name types.NamespacedName) {
	of := b.usage[name.Namespace]
	if of == nil {
		return
	}
	of.line.remove(name.Name)
	if invited, found := of.invited[name.Name]; found {
		of.promised -= invited.bytes
		delete(of.invited, name.Name)
	}
	b.invite(name.Namespace)
}

// invite asks the oldest waiting tasks to come again, as many as there is room for.
func (b *Board) invite(namespace string) {
	of := b.usageOf(namespace)
	for len(of.line.waiting) > 0 && len(of.invited) < mostInvited && of.exceeds(b.config.Budget, of.line.waiting[0].bytes) == "" {
		next := of.line.next()
		of.invited[next.name] = invitation{bytes: next.bytes, until: time.Now().Add(invitedFor)}
		of.promised += next.bytes
		b.config.Tasks.After(types.NamespacedName{Namespace: namespace, Name: next.name}, 0)
	}
	if of.tasks == 0 && len(of.line.waiting) == 0 && len(of.invited) == 0 {
		delete(b.usage, namespace)
	}
}

// expireInvitations gives the room of invited tasks that did not come to others, and returns when to look again. A task that
// comes later joins the line again.
func (b *Board) expireInvitations(now time.Time) time.Time {
	var next time.Time
	for namespace, of := range b.usage {
		expired := false
		for name, invited := range of.invited {
			if now.Before(invited.until) {
				next = earliest(next, invited.until)
				continue
			}
			of.promised -= invited.bytes
			delete(of.invited, name)
			expired = true
		}
		if expired {
			b.invite(namespace)
		}
	}
	return next
}

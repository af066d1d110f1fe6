package dispatch

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// declinedPause is the delay before a declined task is tried again.
const declinedPause = time.Second

// Observe learns a Task and returns what should be written about it.
func (d *Dispatcher) Observe(task *v1alpha1.Task, input TaskInput) TaskView {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := client.ObjectKeyFromObject(task)
	if state := d.tasks[name]; state != nil && state.uid != task.UID {
		d.dropTask(state)
	}
	if view, over := d.untrackedView(task); over {
		return view
	}
	state := d.tasks[name]
	switch {
	case state == nil && !d.mayAdmit(task):
		return d.deferAdmission(task, input)
	case state == nil:
		state = d.admit(task)
	case state.knowsNewer(task):
		return TaskView{Stale: true}
	}
	d.restoreAssignment(state, task)
	d.updateTask(state, task)
	state.input, state.observed = input, true
	d.forwardStop(state)
	d.updateQueue(state)
	if until := d.endDeferredUntil(state); !until.IsZero() {
		state.reportedEnd = nil
		return TaskView{DeferredUntil: until}
	}
	state.reportedEnd = state.end
	view := state.view()
	if view.Assignment != nil {
		view.Assignment.Lease = d.maxLeaseInUse(state.assignment.agent)
		if state.storedEpoch < state.assignment.epoch {
			d.recordStoredLease(state.assignment, view.Assignment.Lease)
		}
	}
	return view
}

// untrackedView returns the view of a task that is not kept, because it is finished or can never run; false for every other task.
func (d *Dispatcher) untrackedView(task *v1alpha1.Task) (TaskView, bool) {
	name := client.ObjectKeyFromObject(task)
	switch {
	case !d.Opened():
		return TaskView{Stale: true}, true
	case task.Status.Phase.Final():
		d.removeTask(name) // the cache has it, and will not go back
		return TaskView{}, true
	case d.isFinished(task):
		return TaskView{Stale: true}, true
	case d.isInvalidEpoch(epochOf(task)):
		d.removeTask(name)
		return TaskView{Wait: &Wait{}}, true
	}
	return TaskView{}, false
}

// endDeferredUntil returns until when the end of an attempt, or a final phase, must not be stored; zero if it may be stored now. A
// former leader may have assigned an attempt that is not stored. It may run on an agent that has not reported what it runs,
// or be in transit to it. If the task became final now, that attempt would start afterwards, or its success would be thrown
// away.
func (d *Dispatcher) endDeferredUntil(state *taskState) time.Time {
	if !state.mayRunUnstored() {
		return time.Time{}
	}
	swarm := d.swarmOf(state.swarm)
	until := d.recoveringUntil(swarm, time.Now())
	if !until.IsZero() {
		swarm.deferredEnds[state.name] = struct{}{}
	}
	return until
}

// mayRunUnstored reports whether a task that is about to end may have an attempt that is neither stored nor known here: a first
// one, or a newer one than the one that has ended. All others are stored before they are sent.
func (s *taskState) mayRunUnstored() bool {
	if s.end != nil {
		return s.end.Epoch > s.storedEpoch
	}
	return s.input.WillEnd && s.assignment == nil && s.storedEpoch == 0
}

// admit creates the entry of a task. What is stored as assigned is assumed to be running until its agent reports otherwise,
// or its time has passed.
func (d *Dispatcher) admit(task *v1alpha1.Task) *taskState {
	name := client.ObjectKeyFromObject(task)
	state := &taskState{
		name: name, uid: task.UID, created: task.CreationTimestamp.Time, waitingSince: time.Now(),
		swarm: types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.SwarmRef.Name},
	}
	d.tasks[name] = state
	d.charge(state, task)
	d.config.Swarms.After(state.swarm, statusWriteInterval)
	d.restoreAssignment(state, task)
	d.updateTask(state, task)
	d.adoptOrphans(state)
	return state
}

// restoreAssignment takes over a stored assignment that this leader did not make.
func (d *Dispatcher) restoreAssignment(state *taskState, task *v1alpha1.Task) {
	if len(task.Status.AssignedAgents) == 0 || task.Status.AssignedAgents[0].Epoch <= state.epoch {
		return
	}
	assigned, since := task.Status.AssignedAgents[0], task.CreationTimestamp.Time
	if assigned.Since != nil {
		since = assigned.Since.Time
	}
	holder := d.agentOf(link.Agent{Namespace: task.Namespace, Name: assigned.Name})
	// If the agent's object is gone, only the lease that is stored with the assignment is left.
	lease := max(d.maxLeaseInUse(holder), time.Duration(assigned.LeaseSeconds)*time.Second)
	now := time.Now()
	over := now.Add(leaseTimeout(lease))
	holder.lease.addFormer(lease, over, now)
	d.setAssignment(state, &assignment{
		agent: holder, process: processOf(assigned), restored: true, attempt: assigned.Attempt, epoch: assigned.Epoch,
		since: since, sent: true, expiresAt: over, progress: task.Status.Progress,
	})
	d.config.Agents.After(holder.objectKey(), 0) // its pod may prove that the process has ended
}

// setAssignment gives an entry a hold.
func (d *Dispatcher) setAssignment(state *taskState, assignment *assignment) {
	d.clearAssignment(state)
	state.assignment, state.epoch, state.attempt = assignment, max(state.epoch, assignment.epoch), max(state.attempt, assignment.attempt)
	assignment.agent.assignedTasks[state.uid] = state
	if assignment.agent.swarm.Name == "" {
		assignment.agent.swarm = state.swarm
	}
	d.swarmOf(state.swarm).epoch = max(d.swarmOf(state.swarm).epoch, assignment.epoch)
	delete(d.swarmOf(state.swarm).queue, state.name)
}

// clearAssignment removes the hold, and frees its room at the agent.
func (d *Dispatcher) clearAssignment(state *taskState) {
	if state.assignment == nil {
		return
	}
	agent := state.assignment.agent
	delete(agent.assignedTasks, state.uid)
	state.assignment = nil
	d.wakeSwarm(d.swarmOf(state.swarm))
	d.requestSwarmReconcile(agent)
	d.removeIfUnused(agent)
}

// requestSwarmReconcile requests a reconcile of a swarm: at once if it waits for its last attempts to end, otherwise for its numbers, which
// can wait.
func (d *Dispatcher) requestSwarmReconcile(agent *agentState) {
	delay := statusWriteInterval
	if halted := d.swarmOf(agent.swarm).rules.Halt; agent.countAttempts() == 0 && (!agent.leavingSince.IsZero() || halted != nil) {
		delay = 0
	}
	d.config.Swarms.After(agent.swarm, delay)
}

// updateQueue puts an entry where it belongs: among those that wait for an agent, or not.
func (d *Dispatcher) updateQueue(state *taskState) {
	swarm := d.swarmOf(state.swarm)
	_, queued := swarm.queue[state.name]
	waits := state.needsAgent() && d.contestedTasks[state.uid] == 0
	switch {
	case waits && !queued:
		swarm.queue[state.name] = state
		state.waitingSince, state.wait = time.Now(), Wait{}
		d.wakeSwarm(swarm)
	case !waits && queued:
		delete(swarm.queue, state.name)
	}
}

// forwardStop passes the request to stop a task on to its agent.
func (d *Dispatcher) forwardStop(state *taskState) {
	assignment := state.assignment
	switch {
	case assignment == nil || state.input.Stop == Continue || assignment.sentStop == state.input.Stop:
	case !assignment.sent:
		d.clearAssignment(state)
	case assignment.agent.linked:
		if d.sendStop(assignment.agent, state.assignedAttempt(assignment), state.input.Stop) {
			assignment.sentStop = state.input.Stop
		}
	}
}

// MarkStored records that this version of the object is stored. An assignment that waited for that is sent, with the payload.
func (d *Dispatcher) MarkStored(task *v1alpha1.Task, payload []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.tasks[client.ObjectKeyFromObject(task)]
	if state == nil || state.uid != task.UID {
		d.markUnadmittedStored(task)
		return
	}
	if state.version != task.ResourceVersion {
		state.lastWrite = time.Now()
	}
	d.updateTask(state, task)
	if end := state.end; end != nil && end == state.reportedEnd && isEndStored(task, end.Epoch) {
		d.acknowledgeEnd(state)
	}
	switch {
	case task.Status.Phase.Final():
		d.removeTask(state.name)
		d.finished[state.name] = state.uid
		return
	case state.assignment != nil && !state.assignment.sent && isAssigned(task, state.assignment.epoch):
		d.sendAssign(state, payload)
	}
	d.updateQueue(state)
}

// acknowledgeEnd lets the agent forget a stored result.
func (d *Dispatcher) acknowledgeEnd(state *taskState) {
	end := state.end
	state.end = nil
	if end.Lost {
		return
	}
	d.acknowledge(end.sender, state.attemptMessage(end.Attempt, end.Epoch))
	if end.Outcome == linkv1.Outcome_OUTCOME_DECLINED {
		state.notBefore = latest(state.notBefore, time.Now().Add(declinedPause))
	}
}

func isEndStored(task *v1alpha1.Task, epoch int64) bool {
	return task.Status.Epoch >= epoch && !isAssigned(task, epoch)
}

func isAssigned(task *v1alpha1.Task, epoch int64) bool {
	for _, assigned := range task.Status.AssignedAgents {
		if assigned.Epoch == epoch {
			return true
		}
	}
	return false
}

// markUnadmittedStored records the end of a task that is not held because its namespace has reached a limit.
func (d *Dispatcher) markUnadmittedStored(task *v1alpha1.Task) {
	if task.Status.Phase.Final() {
		name := client.ObjectKeyFromObject(task)
		d.dequeueWaiting(name)
		d.finished[name] = task.UID
	}
}

// removeTask drops a task that has reached a final phase, or is gone.
func (d *Dispatcher) removeTask(name types.NamespacedName) {
	delete(d.finished, name)
	d.dequeueWaiting(name)
	if state := d.tasks[name]; state != nil {
		d.dropTask(state)
	}
	d.refuseOrphans(name)
}

// isFinished reports whether a final phase of the task was stored. A final phase never changes, so an object with another phase is old.
func (d *Dispatcher) isFinished(task *v1alpha1.Task) bool {
	uid, finished := d.finished[client.ObjectKeyFromObject(task)]
	return finished && uid == task.UID
}

// Forget drops a deleted task. An agent that runs it is asked to stop, and its slot stays taken until it has.
func (d *Dispatcher) Forget(name types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removeTask(name)
}

func (d *Dispatcher) dropTask(state *taskState) {
	delete(d.tasks, state.name)
	d.uncharge(state)
	delete(d.swarmOf(state.swarm).queue, state.name)
	d.supersede(state)
	if end := state.end; end != nil && !end.Lost {
		d.acknowledge(end.sender, state.attemptMessage(end.Attempt, end.Epoch))
	}
}

// supersede takes an attempt away from its holder, which keeps the slot until it has stopped. An agent that claims one epoch
// of its task after the other causes any number of these, so only some are remembered. Beyond that bound an attempt is still
// cancelled, but its slot counts as free: the task is gone, or has a later epoch, and an agent that still runs it declines
// assignments beyond its slots.
func (d *Dispatcher) supersede(state *taskState) {
	if assignment := state.assignment; assignment != nil && assignment.sent {
		attempt := state.assignedAttempt(assignment)
		d.putOrphan(assignment.agent, &orphanAttempt{attempt: attempt, process: assignment.process, expiresAt: assignment.expiresAt})
		d.sendStop(assignment.agent, attempt, Cancel)
	}
	d.clearAssignment(state)
}

func (s *taskState) assignedAttempt(assignment *assignment) *linkv1.Attempt {
	return s.attemptMessage(assignment.attempt, assignment.epoch)
}

func (s *taskState) attemptMessage(attempt int32, epoch int64) *linkv1.Attempt {
	return &linkv1.Attempt{Namespace: s.name.Namespace, Task: s.name.Name, TaskUid: string(s.uid), Attempt: attempt, Epoch: epoch}
}

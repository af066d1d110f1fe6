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
func (b *Board) Observe(task *v1alpha1.Task, brief Brief) View {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := client.ObjectKeyFromObject(task)
	if known := b.tasks[name]; known != nil && known.uid != task.UID {
		b.forget(known)
	}
	if view, over := b.passedOver(task); over {
		return view
	}
	known := b.tasks[name]
	switch {
	case known == nil && !b.mayEnter(task):
		return b.turnAway(task, brief)
	case known == nil:
		known = b.enter(task)
	case known.older(task):
		return View{Stale: true}
	}
	b.restore(known, task)
	b.learn(known, task)
	known.brief, known.briefed = brief, true
	b.heed(known)
	b.queue(known)
	if until := b.endWaits(known); !until.IsZero() {
		known.told = nil
		return View{HeldBack: until}
	}
	known.told = known.ended
	view := known.view()
	if view.Held != nil {
		view.Held.Lease = b.leaseInForce(known.held.agent)
		if known.stored < known.held.epoch {
			b.isStoredWith(known.held, view.Held.Lease)
		}
	}
	return view
}

// passedOver returns the view of a task that is not kept, because it is finished or can never run; false for every other task.
func (b *Board) passedOver(task *v1alpha1.Task) (View, bool) {
	name := client.ObjectKeyFromObject(task)
	switch {
	case !b.Opened():
		return View{Stale: true}, true
	case task.Status.Phase.Final():
		b.finish(name) // the cache has it, and will not go back
		return View{}, true
	case b.isFinished(task):
		return View{Stale: true}, true
	case b.isInvalid(epochOf(task)):
		b.finish(name)
		return View{Wait: &Wait{}}, true
	}
	return View{}, false
}

// endWaits returns until when the end of an attempt, or a final phase, must not be stored; zero if it may be stored now. A
// former leader may have assigned an attempt that is not stored. It may run on an agent that has not reported what it runs,
// or be in transit to it. If the task became final now, that attempt would start afterwards, or its success would be thrown
// away.
func (b *Board) endWaits(of *entry) time.Time {
	if !of.mayRunUnseen() {
		return time.Time{}
	}
	swarm := b.swarmOf(of.swarm)
	until := b.heldBack(swarm, time.Now())
	if !until.IsZero() {
		swarm.ends[of.name] = struct{}{}
	}
	return until
}

// mayRunUnseen reports whether a task that is about to end may have an attempt that is neither stored nor known here: a first
// one, or a newer one than the one that has ended. All others are stored before they are sent.
func (e *entry) mayRunUnseen() bool {
	if e.ended != nil {
		return e.ended.Epoch > e.stored
	}
	return e.brief.Ends && e.held == nil && e.stored == 0
}

// enter creates the entry of a task. What is stored as assigned is assumed to be running until its agent reports otherwise,
// or its time has passed.
func (b *Board) enter(task *v1alpha1.Task) *entry {
	name := client.ObjectKeyFromObject(task)
	made := &entry{
		name: name, uid: task.UID, created: task.CreationTimestamp.Time, waiting: time.Now(),
		swarm: types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.SwarmRef.Name},
	}
	b.tasks[name] = made
	b.charge(made, task)
	b.config.Swarms.After(made.swarm, shownEvery)
	b.restore(made, task)
	b.learn(made, task)
	b.adoptStrays(made)
	return made
}

// restore takes over a stored assignment that this leader did not make.
func (b *Board) restore(of *entry, task *v1alpha1.Task) {
	if len(task.Status.AssignedAgents) == 0 || task.Status.AssignedAgents[0].Epoch <= of.epoch {
		return
	}
	given, since := task.Status.AssignedAgents[0], task.CreationTimestamp.Time
	if given.Since != nil {
		since = given.Since.Time
	}
	holder := b.agentOf(link.Agent{Namespace: task.Namespace, Name: given.Name})
	// If the agent's object is gone, only the lease that is stored with the assignment is left.
	lease := max(b.leaseInForce(holder), time.Duration(given.LeaseSeconds)*time.Second)
	now := time.Now()
	over := now.Add(lapse(lease))
	holder.lease.mayGoBy(lease, over, now)
	b.take(of, &hold{
		agent: holder, process: processOf(given), restored: true, attempt: given.Attempt, epoch: given.Epoch,
		since: since, sent: true, expires: over, progress: task.Status.Progress,
	})
	b.config.Agents.After(holder.object(), 0) // its pod may prove that the process has ended
}

// take gives an entry a hold.
func (b *Board) take(of *entry, held *hold) {
	b.release(of)
	of.held, of.epoch, of.attempt = held, max(of.epoch, held.epoch), max(of.attempt, held.attempt)
	held.agent.holds[of.uid] = of
	if held.agent.swarm.Name == "" {
		held.agent.swarm = of.swarm
	}
	b.swarmOf(of.swarm).epoch = max(b.swarmOf(of.swarm).epoch, held.epoch)
	delete(b.swarmOf(of.swarm).queue, of.name)
}

// release removes the hold, and frees its room at the agent.
func (b *Board) release(of *entry) {
	if of.held == nil {
		return
	}
	member := of.held.agent
	delete(member.holds, of.uid)
	of.held = nil
	b.stir(b.swarmOf(of.swarm))
	b.settle(member)
	b.discard(member)
}

// settle requests a reconcile of a swarm: at once if it waits for its last attempts to end, otherwise for its numbers, which can wait.
func (b *Board) settle(member *agent) {
	delay := shownEvery
	if halted := b.swarmOf(member.swarm).rules.Halt; member.busy() == 0 && (!member.leaving.IsZero() || halted != nil) {
		delay = 0
	}
	b.config.Swarms.After(member.swarm, delay)
}

// queue puts an entry where it belongs: among those that wait for an agent, or not.
func (b *Board) queue(of *entry) {
	swarm := b.swarmOf(of.swarm)
	_, queued := swarm.queue[of.name]
	waits := of.waits() && b.contested[of.uid] == 0
	switch {
	case waits && !queued:
		swarm.queue[of.name] = of
		of.waiting, of.wait = time.Now(), Wait{}
		b.stir(swarm)
	case !waits && queued:
		delete(swarm.queue, of.name)
	}
}

// heed passes the request to stop a task on to its agent.
func (b *Board) heed(of *entry) {
	held := of.held
	switch {
	case held == nil || of.brief.Stop == GoOn || held.stopped == of.brief.Stop:
	case !held.sent:
		b.release(of)
	case held.agent.linked:
		if b.order(held.agent, of.attemptOf(held), of.brief.Stop) {
			held.stopped = of.brief.Stop
		}
	}
}

// Settle records that this version of the object is stored. An assignment that waited for that is sent, with the payload.
func (b *Board) Settle(task *v1alpha1.Task, payload []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.tasks[client.ObjectKeyFromObject(task)]
	if known == nil || known.uid != task.UID {
		b.settleUnheld(task)
		return
	}
	if known.version != task.ResourceVersion {
		known.wrote = time.Now()
	}
	b.learn(known, task)
	if ended := known.ended; ended != nil && ended == known.told && recorded(task, ended.Epoch) {
		b.close(known)
	}
	switch {
	case task.Status.Phase.Final():
		b.finish(known.name)
		b.finished[known.name] = known.uid
		return
	case known.held != nil && !known.held.sent && assigned(task, known.held.epoch):
		b.deliver(known, payload)
	}
	b.queue(known)
}

// close lets the agent forget a stored result.
func (b *Board) close(of *entry) {
	ended := of.ended
	of.ended = nil
	if ended.Lost {
		return
	}
	b.acknowledge(ended.from, of.attempted(ended.Attempt, ended.Epoch))
	if ended.Outcome == linkv1.Outcome_OUTCOME_DECLINED {
		of.notBefore = later(of.notBefore, time.Now().Add(declinedPause))
	}
}

func recorded(task *v1alpha1.Task, epoch int64) bool {
	return task.Status.Epoch >= epoch && !assigned(task, epoch)
}

func assigned(task *v1alpha1.Task, epoch int64) bool {
	for _, given := range task.Status.AssignedAgents {
		if given.Epoch == epoch {
			return true
		}
	}
	return false
}

// settleUnheld records the end of a task that is not held because its namespace has reached a limit.
func (b *Board) settleUnheld(task *v1alpha1.Task) {
	if task.Status.Phase.Final() {
		name := client.ObjectKeyFromObject(task)
		b.leaveLine(name)
		b.finished[name] = task.UID
	}
}

// finish drops a task that has reached a final phase, or is gone.
func (b *Board) finish(name types.NamespacedName) {
	delete(b.finished, name)
	b.leaveLine(name)
	if known := b.tasks[name]; known != nil {
		b.forget(known)
	}
	b.refuseStrays(name)
}

// isFinished reports whether a final phase of the task was stored. A final phase never changes, so an object with another phase is old.
func (b *Board) isFinished(task *v1alpha1.Task) bool {
	uid, finished := b.finished[client.ObjectKeyFromObject(task)]
	return finished && uid == task.UID
}

// Forget drops a deleted task. An agent that runs it is asked to stop, and its slot stays taken until it has.
func (b *Board) Forget(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(name)
}

func (b *Board) forget(known *entry) {
	delete(b.tasks, known.name)
	b.discharge(known)
	delete(b.swarmOf(known.swarm).queue, known.name)
	b.supersede(known)
	if ended := known.ended; ended != nil && !ended.Lost {
		b.acknowledge(ended.from, known.attempted(ended.Attempt, ended.Epoch))
	}
}

// supersede takes an attempt away from its holder, which keeps the slot until it has stopped. An agent that claims one epoch
// of its task after the other causes any number of these, so only some are remembered. Beyond that bound an attempt is still
// cancelled, but its slot counts as free: the task is gone, or has a later epoch, and an agent that still runs it declines
// assignments beyond its slots.
func (b *Board) supersede(known *entry) {
	if held := known.held; held != nil && held.sent {
		attempt := known.attemptOf(held)
		b.putStray(held.agent, &stray{attempt: attempt, process: held.process, until: held.expires})
		b.order(held.agent, attempt, Cancel)
	}
	b.release(known)
}

func (e *entry) attemptOf(held *hold) *linkv1.Attempt { return e.attempted(held.attempt, held.epoch) }

func (e *entry) attempted(attempt int32, epoch int64) *linkv1.Attempt {
	return &linkv1.Attempt{Namespace: e.name.Namespace, Task: e.name.Name, TaskUid: string(e.uid), Attempt: attempt, Epoch: epoch}
}

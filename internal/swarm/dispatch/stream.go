package dispatch

import (
	"errors"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// statusWriteInterval is how often, at most, the load of an agent is written.
const statusWriteInterval = 10 * time.Second

// Joined implements link.Events: an agent reports what it runs and which results were never acknowledged.
func (d *Dispatcher) Joined(name link.Agent, podUID string, hello *linkv1.Hello) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if proven := hello.GetTerm(); proven > d.config.Leadership.Term() {
		d.config.Leadership.RaiseTerm(proven)
		return errLaterTerm
	}
	d.skipEpochs(hello)
	agent := d.agentOf(name)
	process := Process{podUID, hello.GetProcess()}
	if d.writeAssignmentsOfOthers(agent, process) {
		return errUnwritten
	}
	if !agent.hasObject {
		agent.swarm = types.NamespacedName{Namespace: name.Namespace, Name: hello.GetSwarm()}
	}
	agent.linked, agent.process, agent.creditGranted, agent.creditUsed = true, process, 0, 0
	agent.offeredSlots, agent.draining = int(hello.GetSlots()), hello.GetDraining()
	agent.helloAttempts, agent.helloPartial = attemptsIn(hello), hello.GetPartial()
	for _, attempt := range hello.GetRunning() {
		d.resumeAttempt(agent, agent.process, attempt)
	}
	for _, result := range hello.GetUnacknowledged() {
		d.handleResult(agent, result)
	}
	d.wakeSwarm(d.swarmOf(agent.swarm))
	d.config.Agents.After(agent.objectKey(), 0)
	return nil
}

// errUnwritten refuses the successor of a process until everything that the former one may run is stored. After that, Agent
// status names the successor, and the next leader would not wait for the former process.
var errUnwritten = errors.New("an assignment of the process before is being stored: connect again")

// writeAssignmentsOfOthers requests a write of what other processes of an agent hold, or may hold, and reports whether there is any.
func (d *Dispatcher) writeAssignmentsOfOthers(agent *agentState, process Process) bool {
	unwritten := false
	for _, state := range agent.assignedTasks {
		if assignment := state.assignment; assignment.sent && assignment.process != process && state.storedEpoch < assignment.epoch {
			unwritten = true
			d.config.Tasks.After(state.name, 0)
		}
	}
	for _, orphan := range agent.orphans {
		if orphan.process != process && d.mayBeUnwritten(orphan) {
			unwritten = true
			d.config.Tasks.After(taskOf(orphan.attempt), 0)
		}
	}
	return unwritten
}

// mayBeUnwritten reports whether an orphan may run without being stored, so that the next leader waits for it only if Agent status names
// its process: its task is still being looked for, or as far as this leader can know it was never assigned, and cannot be stored.
func (d *Dispatcher) mayBeUnwritten(orphan *orphanAttempt) bool {
	return !orphan.hasResult && !orphan.refused && (orphan.contested || d.tasks[taskOf(orphan.attempt)] == nil)
}

const (
	// maxSkipPerHello bounds how far one Hello moves the sequence, and maxSkipPerTerm how far all Hellos of a term do
	// together. So lying agents can use up 1/256 of a term, however often they connect, and no Hello ends a term. Beyond
	// that, epochs that this leader has not issued are impossible.
	maxSkipPerHello = 1 << 16
	maxSkipPerTerm  = 1 << 24
)

// skipEpochs moves the sequence above epochs of this term that this leader has not issued. If the Lease and the Secret were
// both deleted, terms have restarted, and these epochs come from an earlier leader of the same term.
func (d *Dispatcher) skipEpochs(hello *linkv1.Hello) {
	newest := d.newestEpoch()
	highest := newest + min(maxSkipPerHello, maxSkipPerTerm-d.skipped)
	for attempt := range attemptsIn(hello) {
		if epoch := attempt.Epoch; epoch > d.newestEpoch() && epoch <= highest && epoch>>32 == d.config.Leadership.Term() {
			d.sequence = epoch & math.MaxUint32
		}
	}
	d.skipped += d.newestEpoch() - newest
}

// attemptsIn returns the attempts that an agent has named.
func attemptsIn(hello *linkv1.Hello) map[linkv1.AttemptKey]bool {
	attempts := map[linkv1.AttemptKey]bool{}
	for _, attempt := range hello.GetRunning() {
		attempts[attempt.Key()] = true
	}
	for _, result := range hello.GetUnacknowledged() {
		attempts[result.GetAttempt().Key()] = true
	}
	return attempts
}

// confirmHello is called when the agent has sent anything after its Hello, which it does once it is welcomed. Until then the Hello
// may have been in transit for a long time: the agent may have abandoned the stream, and have received work from another
// leader since.
func (d *Dispatcher) confirmHello(agent *agentState) {
	if agent.helloAttempts != nil && !agent.helloPartial {
		d.completeHello(agent)
	}
}

// completeHello draws conclusions from the attempts that an agent has not named, once it has named everything. A process that does
// not name an attempt does not have it. That proves nothing about other processes, whether of the same pod or of another one
// of the same name.
func (d *Dispatcher) completeHello(agent *agentState) {
	for _, state := range agent.assignedTasks {
		if assignment := state.assignment; assignment.sent && assignment.process == agent.process &&
			!agent.helloAttempts[state.assignedAttempt(assignment).Key()] {
			d.markUndelivered(state)
		}
	}
	for key, orphan := range agent.orphans {
		if orphan.process == agent.process && !agent.helloAttempts[key] {
			d.dropOrphan(agent, key)
		}
	}
	agent.helloAttempts = nil
	d.stopAwaiting(agent, Process{PodUID: agent.process.PodUID})
	d.stopAwaiting(agent, agent.process)
}

// stopAwaiting ends the wait for a process that has reported what it runs, or that runs nothing.
func (d *Dispatcher) stopAwaiting(agent *agentState, process Process) {
	swarm, awaited := d.swarmOf(agent.swarm), awaitedProcess{agent.name, process}
	if _, found := swarm.awaitedProcesses[awaited]; found {
		delete(swarm.awaitedProcesses, awaited)
		d.config.Agents.After(agent.objectKey(), 0) // its successor may be recorded now
	}
	d.wakeSwarm(swarm)
}

// markUndelivered ends an attempt that its agent does not have. A process that names itself has never received it, which costs the task
// nothing. For older agents only the pod is known: the process that had the attempt may have ended.
func (d *Dispatcher) markUndelivered(state *taskState) {
	assignment := state.assignment
	if assignment.process.ID == "" {
		d.markLost(state, "its agent started anew")
		return
	}
	state.end = &AttemptEnd{
		Agent: assignment.agent.name.Name, Attempt: assignment.attempt, Epoch: assignment.epoch, Since: assignment.since,
		Outcome:     linkv1.Outcome_OUTCOME_DECLINED,
		Undelivered: true, Reason: string(v1alpha1.ReasonNotDelivered),
		Message: "the assignment did not reach agent " + assignment.agent.name.Name, sender: assignment.agent.name,
	}
	d.clearAssignment(state)
	assignment.agent.recordFailure(time.Now())
	d.metrics.undelivered.Inc()
	d.config.Tasks.After(state.name, 0)
}

// resumeAttempt takes over an attempt that a process of an agent reports as running.
func (d *Dispatcher) resumeAttempt(agent *agentState, process Process, attempt *linkv1.Attempt) {
	state := d.tasks[taskOf(attempt)]
	switch {
	case state == nil:
		d.lookUpOrphan(agent, &orphanAttempt{attempt: attempt})
	case string(state.uid) != attempt.GetTaskUid(), state.swarm != agent.swarm:
		d.stopAttempt(agent, attempt)
	case d.isImpossibleEpoch(attempt.GetEpoch()):
		d.contestTask(agent, state, attempt)
	case state.assignment != nil && state.assignment.epoch == attempt.GetEpoch() && state.assignment.mayBelongTo(agent, process):
		state.assignment.process, state.assignment.restored, state.assignment.expiresAt, state.assignment.sentStop = process, false, time.Time{},
			Continue
		d.config.Tasks.After(state.name, 0)
	case attempt.GetEpoch() > state.epoch:
		d.supersede(state)
		d.setAssignment(state, &assignment{
			agent: agent, process: process, attempt: attempt.GetAttempt(), epoch: attempt.GetEpoch(), since: time.Now(), first: true, sent: true,
		})
		state.end = nil
		d.config.Tasks.After(state.name, 0)
	default:
		d.stopAttempt(agent, attempt)
	}
}

// stopAttempt ends an attempt that an agent must not run.
func (d *Dispatcher) stopAttempt(agent *agentState, attempt *linkv1.Attempt) {
	d.metrics.countStale(staleRunning)
	if d.addOrphan(agent, &orphanAttempt{attempt: attempt}) {
		d.sendStop(agent, attempt, Cancel)
	}
}

// isImpossibleEpoch reports whether no leader can have issued an epoch: this one has not, and all others had earlier terms.
func (d *Dispatcher) isImpossibleEpoch(epoch int64) bool {
	return epoch <= 0 || epoch > d.newestEpoch()
}

// contestTask stops an attempt whose epoch is impossible. The agent may lie. It may also tell the truth, if the Lease and the
// Secret were both deleted, so that terms restarted. So its task is assigned to no other agent as long as this one may be
// running it.
func (d *Dispatcher) contestTask(agent *agentState, state *taskState, attempt *linkv1.Attempt) {
	d.stopAttempt(agent, attempt)
	if orphan := agent.orphans[attempt.Key()]; orphan != nil && !orphan.contested {
		orphan.contested = true
		d.contestedTasks[state.uid]++
		d.updateQueue(state)
	}
}

// Received implements link.Events.
func (d *Dispatcher) Received(name link.Agent, message *linkv1.AgentMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	agent := d.agents[name]
	if agent == nil {
		return
	}
	if message.GetComplete() != nil {
		agent.helloPartial = false
	}
	d.confirmHello(agent)
	switch kind := message.GetKind().(type) {
	case *linkv1.AgentMessage_Result:
		d.handleResult(agent, kind.Result)
	case *linkv1.AgentMessage_Progress:
		d.handleProgress(agent, kind.Progress)
	case *linkv1.AgentMessage_Credit:
		agent.creditGranted, agent.draining = max(agent.creditGranted, kind.Credit.GetGranted()), kind.Credit.GetDraining()
		d.wakeSwarm(d.swarmOf(agent.swarm))
	case *linkv1.AgentMessage_Goodbye:
		d.removeProcess(agent, agent.process)
	}
}

// handleProgress records progress. Only a finished task has reached 100.
func (d *Dispatcher) handleProgress(agent *agentState, progress *linkv1.Progress) {
	attempt := progress.GetAttempt()
	state := d.tasks[taskOf(attempt)]
	if state == nil && agent.awaitsTask(attempt) {
		return // its task is being looked for: the attempt is resumed with the task, or refused if there is none
	}
	if state == nil || state.assignment == nil || state.swarm != agent.swarm || state.assignment.agent != agent ||
		state.assignment.epoch != attempt.GetEpoch() || string(state.uid) != attempt.GetTaskUid() {
		d.metrics.countStale(staleProgress)
		d.sendStop(agent, attempt, Cancel)
		return
	}
	percent := min(max(progress.GetPercent(), state.assignment.progress), 99)
	if percent == state.assignment.progress && progress.GetMessage() == state.assignment.message {
		return
	}
	state.assignment.progress, state.assignment.message = percent, progress.GetMessage()
	if state.storedEpoch == state.assignment.epoch {
		d.config.Tasks.After(state.name, statusWriteInterval-min(time.Since(state.lastWrite), statusWriteInterval))
	}
}

// awaitsTask reports whether the linked process has named an attempt as running whose task the dispatcher does not know yet.
func (a *agentState) awaitsTask(attempt *linkv1.Attempt) bool {
	orphan := a.orphans[attempt.Key()]
	return orphan != nil && !orphan.hasResult && !orphan.refused && orphan.process == a.process
}

// Left implements link.Events, also for an agent that has not joined. The agent keeps what it holds until it can no longer be working.
func (d *Dispatcher) Left(name link.Agent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	agent := d.agents[name]
	if agent == nil {
		return
	}
	agent.streamOpen, agent.linked = false, false
	leaseEnd := d.leaseEnd(agent)
	for _, state := range agent.assignedTasks {
		if state.assignment.expiresAt.IsZero() {
			state.assignment.expiresAt = leaseEnd
		}
	}
	for _, orphan := range agent.orphans {
		if orphan.expiresAt.IsZero() {
			orphan.expiresAt = leaseEnd
		}
	}
	d.wakeSwarm(d.swarmOf(agent.swarm))
	d.config.Agents.After(agent.objectKey(), 0)
	d.removeIfUnused(agent)
}

func taskOf(attempt *linkv1.Attempt) types.NamespacedName {
	return types.NamespacedName{Namespace: attempt.GetNamespace(), Name: attempt.GetTask()}
}

package dispatch

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// handleResult accepts a result if it is of the attempt that counts. Any other result is too old to matter, and is acknowledged
// so that the agent does not send it again.
func (d *Dispatcher) handleResult(agent *agentState, result *linkv1.Result) {
	attempt := result.GetAttempt()
	state := d.tasks[taskOf(attempt)]
	switch {
	case state == nil:
		d.lookUpOrphan(agent, &orphanAttempt{attempt: attempt, hasResult: true})
		return
	case state.end != nil && state.end.Epoch == attempt.GetEpoch() &&
		(!state.end.Lost || result.GetOutcome() != linkv1.Outcome_OUTCOME_SUCCEEDED):
		// The end of the attempt, or its loss, is being stored. The agent keeps its result until then, and sends it again.
	case state.swarm == agent.swarm && !d.isImpossibleEpoch(attempt.GetEpoch()) && state.acceptsResult(agent, result):
		d.acceptResult(state, agent, result)
	default:
		d.metrics.countStale(staleResult)
		d.acknowledge(agent.name, attempt)
	}
	d.dropOrphan(agent, attempt.Key())
}

// dropOrphan forgets an orphan, which frees its room at the agent.
func (d *Dispatcher) dropOrphan(agent *agentState, key linkv1.AttemptKey) {
	orphan := agent.orphans[key]
	if orphan == nil {
		return
	}
	d.deleteOrphan(agent, orphan)
	d.wakeSwarm(d.swarmOf(agent.swarm))
	d.requestSwarmReconcile(agent)
}

// acceptsResult reports whether a result is of the attempt that counts: the one that is held; one that an earlier leader assigned
// and never wrote; or one that was given up as lost, was not reassigned since, and has succeeded after all.
func (s *taskState) acceptsResult(agent *agentState, result *linkv1.Result) bool {
	epoch := result.GetAttempt().GetEpoch()
	switch {
	case string(s.uid) != result.GetAttempt().GetTaskUid():
		return false
	case s.assignment != nil:
		return s.assignment.epoch == epoch && s.assignment.agent == agent || epoch > s.epoch
	case epoch > s.epoch:
		return true
	}
	return epoch == s.epoch && result.GetOutcome() == linkv1.Outcome_OUTCOME_SUCCEEDED
}

func (d *Dispatcher) acceptResult(state *taskState, agent *agentState, result *linkv1.Result) {
	attempt := result.GetAttempt()
	since, stopRequested := time.Now(), false
	if state.assignment != nil {
		since, stopRequested = state.assignment.since, state.assignment.sentStop != Continue
	}
	if state.assignment != nil && state.assignment.epoch != attempt.GetEpoch() {
		d.supersede(state)
	}
	d.clearAssignment(state)
	state.epoch, state.attempt = max(state.epoch, attempt.GetEpoch()), max(state.attempt, attempt.GetAttempt())
	state.end = &AttemptEnd{
		Agent: agent.name.Name, Attempt: attempt.GetAttempt(), Epoch: attempt.GetEpoch(), Since: since,
		Outcome: result.GetOutcome(), Value: result.GetValue(), Reason: result.GetReason(), Message: result.GetMessage(),
		sender: agent.name,
	}
	switch result.GetOutcome() {
	case linkv1.Outcome_OUTCOME_SUCCEEDED:
		agent.completed++
		agent.recordSuccess()
	case linkv1.Outcome_OUTCOME_FAILED, linkv1.Outcome_OUTCOME_BAD_INPUT, linkv1.Outcome_OUTCOME_RETRY:
		agent.failed++
		agent.recordSuccess()
	default:
		if !stopRequested {
			agent.recordFailure(time.Now())
		}
	}
	d.metrics.countEnd(result.GetOutcome())
	d.updateQueue(state)
	d.config.Tasks.After(state.name, 0)
	d.config.Agents.After(agent.objectKey(), statusWriteInterval)
}

// markLost gives up an attempt whose end will never be reported.
func (d *Dispatcher) markLost(state *taskState, why string) {
	assignment := state.assignment
	state.end = &AttemptEnd{
		Agent: assignment.agent.name.Name, Attempt: assignment.attempt, Epoch: assignment.epoch, Since: assignment.since, Lost: true,
		Reason: "LinkLost", Message: "agent " + assignment.agent.name.Name + " was lost: " + why,
	}
	d.clearAssignment(state)
	d.metrics.lost.Inc()
	d.config.Tasks.After(state.name, 0)
}

// lookUpOrphan remembers an attempt of a task that the dispatcher does not know, and has its controller look for the task: if it exists,
// Observe gets it, and if not, Forget. A result is not kept: the agent sends it again.
func (d *Dispatcher) lookUpOrphan(agent *agentState, orphan *orphanAttempt) {
	if d.addOrphan(agent, orphan) {
		d.config.Tasks.After(taskOf(orphan.attempt), 0)
	}
}

// HasOrphans reports whether agents name attempts of a task that the dispatcher does not know.
func (d *Dispatcher) HasOrphans(name types.NamespacedName) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.orphanedTasks[name] > 0
}

// adoptOrphans gives a new entry what agents have already reported about it.
func (d *Dispatcher) adoptOrphans(state *taskState) {
	if d.orphanedTasks[state.name] == 0 {
		return
	}
	for _, agent := range d.agents {
		for _, orphan := range slices.Collect(maps.Values(agent.orphans)) { // resume may add some
			switch {
			case taskOf(orphan.attempt) != state.name:
				continue
			case orphan.attempt.GetTaskUid() != string(state.uid):
				d.refuseOrphan(agent, orphan)
				continue
			}
			d.deleteOrphan(agent, orphan)
			d.resumeAttempt(agent, orphan.process, orphan.attempt) // also if it has ended: its result comes again
			if state.assignment != nil && state.assignment.agent == agent && state.assignment.process == orphan.process {
				state.assignment.expiresAt = orphan.expiresAt
			}
		}
	}
}

// refuseOrphans ends what agents report about a task that is over, and about earlier ones of the same name.
func (d *Dispatcher) refuseOrphans(name types.NamespacedName) {
	if d.orphanedTasks[name] == 0 {
		return
	}
	for _, agent := range d.agents {
		for _, orphan := range agent.orphans {
			if taskOf(orphan.attempt) == name {
				d.refuseOrphan(agent, orphan)
			}
		}
	}
}

// refuseOrphan informs an agent that an attempt is not wanted. While it runs, it keeps its slot.
func (d *Dispatcher) refuseOrphan(agent *agentState, orphan *orphanAttempt) {
	orphan.refused = true
	if !orphan.hasResult {
		d.sendStop(agent, orphan.attempt, Cancel)
		return
	}
	d.metrics.countStale(staleResult)
	d.acknowledge(agent.name, orphan.attempt)
	d.dropOrphan(agent, orphan.attempt.Key())
}

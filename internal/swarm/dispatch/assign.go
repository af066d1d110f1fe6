package dispatch

import (
	"errors"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/swarm/schedule"
)

const (
	// firstWriteDelay is how long the write of a first assignment may wait: a task that ends sooner costs one write, not two.
	firstWriteDelay = time.Second
	// A wait is reported to users once it lasts: soon when they have to act, later when it only takes time.
	shortReportDelay, longReportDelay = time.Second, 10 * time.Second
)

// assignTasks assigns what can be assigned in a swarm, and returns when to look again.
func (d *Dispatcher) assignTasks(swarm *swarmState, now time.Time) time.Time {
	until := d.recoveringUntil(swarm, now)
	if until.IsZero() {
		d.resumeDeferred(swarm)
	}
	if !until.IsZero() || !swarm.hasRules {
		return until
	}
	clear(swarm.awaitedProcesses)
	if !swarm.dirty && (swarm.nextCheck.IsZero() || now.Before(swarm.nextCheck)) {
		return swarm.nextCheck
	}
	swarm.dirty = false
	next, ready := swarm.readyTasks(now)
	swarm.nextCheck = next
	if halt := swarm.rules.Halt; halt != nil {
		for _, state := range ready {
			d.markWaiting(state, *halt)
		}
		return next
	}
	d.applyDecision(swarm, ready, now)
	if len(swarm.queue) > 0 {
		swarm.nextCheck = earliest(next, d.probationEnds(swarm, now))
	}
	return swarm.nextCheck
}

// resumeDeferred reconciles everything that had to wait until the agents of a swarm have reported what they run: ends of attempts
// and tasks, and the swarm itself.
func (d *Dispatcher) resumeDeferred(swarm *swarmState) {
	for name := range swarm.deferredEnds {
		d.config.Tasks.After(name, 0)
	}
	clear(swarm.deferredEnds)
	if swarm.countRequested {
		swarm.countRequested = false
		d.config.Swarms.After(swarm.name, 0)
	}
}

// readyTasks returns the tasks that may start, and when there will be more.
func (s *swarmState) readyTasks(now time.Time) (next time.Time, tasks map[string]*taskState) {
	tasks = make(map[string]*taskState, len(s.queue))
	for _, state := range s.queue {
		if now.Before(state.notBefore) {
			next = earliest(next, state.notBefore)
			continue
		}
		tasks[string(state.uid)] = state
	}
	return next, tasks
}

// applyDecision lets the engine decide and carries out its decision.
func (d *Dispatcher) applyDecision(swarm *swarmState, ready map[string]*taskState, now time.Time) {
	demands := make([]schedule.Task, 0, len(ready))
	for _, state := range ready {
		demands = append(demands, state.schedulerTask())
	}
	agents, offers := d.agentsOfSwarm(swarm.name, now)
	decision := schedule.Plan(demands, offers, swarm.rules.Strategy)
	for _, bound := range decision.Bindings {
		d.assignTask(ready[bound.Task], agents[bound.Agent], now)
	}
	for _, waiting := range decision.Waits {
		d.markWaiting(ready[waiting.Task], Wait{Reason: v1alpha1.Reason(waiting.Reason), Message: waiting.Message})
	}
}

// agentsOfSwarm returns the agents of a swarm, for us and for the engine.
func (d *Dispatcher) agentsOfSwarm(swarm types.NamespacedName, now time.Time) (map[string]*agentState, []schedule.Agent) {
	agents, offers := map[string]*agentState{}, []schedule.Agent{}
	for agent := range maps.Values(d.agents) {
		if agent.swarm != swarm || !agent.hasObject {
			continue
		}
		agents[agent.name.Name] = agent
		offers = append(offers, schedule.Agent{
			Name: agent.name.Name, Type: agent.agentType, Capabilities: agent.capabilities, Slots: agent.slots(),
			Running: agent.slots() - agent.freeSlots(now), TotalAssigned: agent.totalAssigned,
			Draining: agent.draining || !agent.leavingSince.IsZero(), Unreachable: !agent.linked,
		})
	}
	return agents, offers
}

// markWaiting records why a task waits, and requests a report if the reason is new.
func (d *Dispatcher) markWaiting(state *taskState, wait Wait) {
	if state.wait == wait {
		return
	}
	isNewReason := state.wait.Reason != wait.Reason
	state.wait = wait
	if isNewReason {
		d.config.Tasks.After(state.name, WaitReportDelay(wait.Reason))
	}
}

// WaitReportDelay is how long a wait lasts before it is written.
func WaitReportDelay(reason v1alpha1.Reason) time.Duration {
	switch reason {
	case v1alpha1.ReasonNoFreeSlot, v1alpha1.ReasonNoAgentReady, v1alpha1.ReasonNamespaceLimitReached:
		return longReportDelay
	}
	return shortReportDelay
}

// assignTask gives a task to an agent: at once if it is the task's first attempt, the agent may have what is not stored and the
// payload is here; otherwise once it is written.
func (d *Dispatcher) assignTask(state *taskState, agent *agentState, now time.Time) {
	fresh := state.neverAssigned()
	first := fresh && d.mayRunUnstored(agent) && !state.input.PayloadByReference
	d.setAssignment(state, &assignment{
		agent: agent, process: agent.process, attempt: state.attempt + 1, epoch: d.nextEpoch(), since: now, first: first,
	})
	if fresh {
		d.metrics.waitSeconds.Observe(now.Sub(state.waitingSince).Seconds())
	}
	if first {
		d.sendAssign(state, state.input.Payload)
		d.config.Tasks.After(state.name, firstWriteDelay)
		return
	}
	d.config.Tasks.After(state.name, 0)
}

// sendAssign sends an assignment. One that cannot be sent counts as never made.
func (d *Dispatcher) sendAssign(state *taskState, payload []byte) {
	assignment := state.assignment
	agent := assignment.agent
	err := errAssignmentOutdated
	if assignment.process == agent.process && agent.linked && agent.isHelloComplete() && state.input.Blocked == nil {
		err = d.link.Send(agent.name,
			&linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Assign{Assign: state.buildAssign(assignment, payload)}})
	}
	if err == nil {
		assignment.sent, assignment.expiresAt = true, time.Time{} // whatever the agent did while it was written
		agent.totalAssigned++
		agent.creditUsed++
		d.config.Agents.After(agent.objectKey(), statusWriteInterval)
		return
	}
	d.metrics.undelivered.Inc()
	d.clearAssignment(state)
	if assignment.first {
		state.epoch, state.attempt = 0, 0 // no agent has seen it: the next attempt is the first
	}
	state.notBefore = time.Now().Add(declinedPause)
	d.updateQueue(state)
}

// errAssignmentOutdated keeps an assignment that was written for one process from its successor, and one whose payload is gone from every
// agent.
var errAssignmentOutdated = errors.New("the agent or the task is not as it was when it was assigned")

func (s *taskState) buildAssign(assignment *assignment, payload []byte) *linkv1.Assign {
	return &linkv1.Assign{
		Attempt: s.assignedAttempt(assignment), Payload: payload, RunTimeout: optionalDuration(s.requirements.runSeconds),
		ProgressTimeout: optionalDuration(s.requirements.progressSeconds),
	}
}

func optionalDuration(seconds int32) *durationpb.Duration {
	if seconds <= 0 {
		return nil
	}
	return durationpb.New(time.Duration(seconds) * time.Second)
}

// sendStop asks an agent to stop an attempt, and reports whether that could be sent. An agent that does not know how to hand an
// attempt back is asked to cancel it: the result is lost, but the slot does not stay blocked. The task goes to another agent
// either way, which counts as a hand-back.
func (d *Dispatcher) sendStop(agent *agentState, attempt *linkv1.Attempt, how StopMode) bool {
	if how == HandBack {
		err := d.sendCancel(agent, &linkv1.Cancel{Attempt: attempt, Reason: "HandBack", HandBack: true})
		if !errors.Is(err, link.ErrUnsupported) {
			return err == nil
		}
	}
	return d.sendCancel(agent, &linkv1.Cancel{Attempt: attempt, Reason: "Cancelled"}) == nil
}

func (d *Dispatcher) sendCancel(agent *agentState, cancel *linkv1.Cancel) error {
	return d.link.Send(agent.name, &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Cancel{Cancel: cancel}})
}

func (d *Dispatcher) acknowledge(to link.Agent, attempt *linkv1.Attempt) {
	_ = d.link.Send(to, &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Acknowledge{Acknowledge: &linkv1.Acknowledge{Attempt: attempt}}})
}

package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// An agentState is what the dispatcher knows about an agent: from its object, from its stream, and from its assignments.
type agentState struct {
	name  link.Agent
	swarm types.NamespacedName

	hasObject     bool   // its object exists and declares what it offers
	objectVersion string // of the object
	agentType     string
	capabilities  []string

	streamOpen      bool // a stream is open for which Lease was called; cleared by Left
	linked          bool
	process         Process                    // of the last Hello
	helloAttempts   map[linkv1.AttemptKey]bool // by a Hello from which no conclusions were drawn yet
	helloPartial    bool                       // more is to come
	recordedProcess Process                    // that Agent status names as linked
	offeredSlots    int                        // slots, by its Hello
	declaredSlots   int                        // slots, by its object; 0 while unknown
	draining        bool                       // by its own report
	lease           leaseState
	creditGranted   int64 // Assigns that it accepts on this stream
	creditUsed      int64 // Assigns on this stream

	consecutiveFailures int       // in a row
	backoffUntil        time.Time // until when it rests after the last one

	leavingSince  time.Time // since when it is to leave; zero when it is not
	assignedTasks map[types.UID]*taskState
	orphans       map[linkv1.AttemptKey]*orphanAttempt
	totalAssigned int
	completed     int64
	failed        int64
}

// An orphanAttempt is an attempt that an agent reports and that belongs to no task that the dispatcher knows, or that the agent must not
// run.
type orphanAttempt struct {
	attempt   *linkv1.Attempt
	process   Process   // that reported it
	hasResult bool      // the agent has a result of it, and repeats it until it is acknowledged
	contested bool      // its epoch is impossible: its task waits
	refused   bool      // its task is over or gone, and its agent was informed
	expiresAt time.Time // when it is certainly over; zero while its agent is linked
}

// spareOrphans is how many orphans of an agent are remembered beyond its slots.
const spareOrphans = 16

// addOrphan remembers an attempt that a linked agent reports, and reports whether there was room for it. An honest agent runs
// no more than it has slots for, and repeats its results.
func (d *Dispatcher) addOrphan(agent *agentState, orphan *orphanAttempt) bool {
	key := orphan.attempt.Key()
	if existing := agent.orphans[key]; existing != nil {
		existing.process, existing.hasResult, existing.expiresAt = agent.process, orphan.hasResult, time.Time{}
		return true
	}
	orphan.process = agent.process
	return d.putOrphan(agent, orphan)
}

// putOrphan remembers an orphan, and that its task has one, if there is room for it.
func (d *Dispatcher) putOrphan(agent *agentState, orphan *orphanAttempt) bool {
	key := orphan.attempt.Key()
	switch existing := agent.orphans[key]; {
	case existing != nil:
		orphan.contested = existing.contested
	case len(agent.orphans) >= agent.slots()+spareOrphans:
		d.config.Refusals.Count(limit.StraysPerAgent)
		return false
	default:
		d.orphanedTasks[taskOf(orphan.attempt)]++
	}
	agent.orphans[key] = orphan
	return true
}

// deleteOrphan forgets an orphan. If it was the last one that contested a task, the task no longer waits for it.
func (d *Dispatcher) deleteOrphan(agent *agentState, orphan *orphanAttempt) {
	delete(agent.orphans, orphan.attempt.Key())
	if task := taskOf(orphan.attempt); d.orphanedTasks[task] > 1 {
		d.orphanedTasks[task]--
	} else {
		delete(d.orphanedTasks, task)
	}
	if !orphan.contested {
		return
	}
	uid := types.UID(orphan.attempt.GetTaskUid())
	if d.contestedTasks[uid]--; d.contestedTasks[uid] > 0 {
		return
	}
	delete(d.contestedTasks, uid)
	if state := d.tasks[taskOf(orphan.attempt)]; state != nil && state.uid == uid {
		d.updateQueue(state)
	}
}

func (d *Dispatcher) agentOf(name link.Agent) *agentState {
	agent := d.agents[name]
	if agent == nil {
		agent = &agentState{name: name, assignedTasks: map[types.UID]*taskState{}, orphans: map[linkv1.AttemptKey]*orphanAttempt{}}
		d.agents[name] = agent
	}
	return agent
}

// SetAgent records an Agent object and the lease that its type asks for: 0 for the default.
func (d *Dispatcher) SetAgent(object *v1alpha1.Agent, lease time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	agent := d.agentOf(link.Agent{Namespace: object.Namespace, Name: object.Name})
	if agent.knowsNewer(object) {
		return // a stale cache shows a lease or a pod that is no longer stored
	}
	agent.objectVersion = object.ResourceVersion
	if workload := object.Status.Workload; workload != nil && !agent.hasObject {
		agent.completed, agent.failed = agent.completed+workload.Completed, agent.failed+workload.Failed
	}
	before := *agent
	agent.recordedProcess = recordedProcessOf(object)
	agent.lease.update(object, cmp.Or(lease, d.config.Lease))
	if agent.lease.stored > before.lease.stored {
		d.requestLeaseWrites(agent)
	}
	d.reconnectForLease(agent)
	agent.hasObject, agent.agentType, agent.capabilities = true, object.Spec.Type, object.Spec.Capabilities
	agent.declaredSlots = int(object.Spec.Slots)
	agent.swarm = types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.SwarmRef.Name}
	agent.setLeaving(slices.Contains(d.swarmOf(agent.swarm).rules.LeavingAgents, object.Name), time.Now())
	if !before.hasObject || before.recordedProcess != agent.recordedProcess || before.swarm != agent.swarm || !before.hasSameOffer(agent) {
		d.wakeSwarm(d.swarmOf(agent.swarm))
	}
}

// hasSameOffer reports whether an agent may be given the same work as before.
func (a *agentState) hasSameOffer(other *agentState) bool {
	return a.agentType == other.agentType && a.slots() == other.slots() && slices.Equal(a.capabilities, other.capabilities)
}

func (a *agentState) knowsNewer(object *v1alpha1.Agent) bool {
	order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, a.objectVersion)
	return err == nil && order < 0
}

// RemoveAgent forgets the object of an agent. The agent keeps what it holds until that ends.
func (d *Dispatcher) RemoveAgent(name types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if agent := d.agents[link.Agent{Namespace: name.Namespace, Name: name.Name}]; agent != nil {
		agent.hasObject, agent.lease.stored = false, 0
		d.removeIfUnused(agent)
	}
}

// removeIfUnused drops an agent without object, stream and attempts.
func (d *Dispatcher) removeIfUnused(agent *agentState) {
	if agent.hasObject || agent.hasStream() || agent.countAttempts() > 0 || agent.lease.stored > 0 || d.isLeased(agent, time.Now()) {
		return
	}
	delete(d.agents, agent.name)
	for _, orphan := range agent.orphans { // all have ended
		d.deleteOrphan(agent, orphan)
	}
}

func (a *agentState) countAttempts() int {
	running := len(a.assignedTasks)
	for _, orphan := range a.orphans {
		if !orphan.hasResult {
			running++
		}
	}
	return running
}

// hasStream reports whether the agent has a stream, on which it may not have joined yet.
func (a *agentState) hasStream() bool { return a.streamOpen || a.linked }

// isHelloComplete reports whether conclusions were drawn from the last Hello. An assignment sent before that is missing in Hello,
// and would count as not delivered.
func (a *agentState) isHelloComplete() bool { return a.helloAttempts == nil }

// freeSlots returns how many more attempts the agent can take now. It gets none before it is heard out, and none before its
// process is recorded: the next leader waits only for processes that are recorded as linked, and a first assignment may be
// sent before it is written.
func (a *agentState) freeSlots(now time.Time) int {
	if a.recordedProcess != a.process || !a.isHelloComplete() {
		return 0
	}
	allowed := a.slots()
	if a.isOnProbation() {
		allowed, _ = a.probationSlots(now)
	}
	credit := a.creditGranted - a.creditUsed
	for _, state := range a.assignedTasks {
		if !state.assignment.sent {
			credit--
		}
	}
	return max(0, min(a.slots()-a.countAttempts(), int(credit), allowed))
}

// slots returns how many attempts the agent may run at once: what it offers, and never more than its object declares.
func (a *agentState) slots() int {
	if a.declaredSlots == 0 {
		return a.offeredSlots
	}
	return min(a.offeredSlots, a.declaredSlots)
}

// setLeaving records since when the agent is to leave.
func (a *agentState) setLeaving(leaving bool, now time.Time) {
	switch {
	case !leaving:
		a.leavingSince = time.Time{}
	case a.leavingSince.IsZero():
		a.leavingSince = now
	}
}

// An AgentView is an agent as the dispatcher sees it.
type AgentView struct {
	Linked          bool
	ProcessToRecord Process   // to be stored as the linked process; the zero value for no change
	Holders         []Process // that hold attempts, or may hold them
	LastHeard       time.Time // zero when never
	Leaving         bool
	Lease           time.Duration // to be stored: the longest that the agent may have received; 0 while unknown
	Workload        v1alpha1.AgentWorkload
}

// Agent returns the view of an agent.
func (d *Dispatcher) Agent(name types.NamespacedName) AgentView {
	d.mu.Lock()
	defer d.mu.Unlock()
	agent := d.agents[link.Agent{Namespace: name.Namespace, Name: name.Name}]
	if agent == nil {
		return AgentView{}
	}
	heard, _ := d.link.LastHeard(agent.name)
	return AgentView{
		Linked: agent.linked, ProcessToRecord: d.processToRecord(agent, time.Now()), Holders: d.holders(agent), LastHeard: heard,
		Leaving: !agent.leavingSince.IsZero() || agent.draining,
		Lease:   d.leaseToStore(agent, time.Now()),
		Workload: v1alpha1.AgentWorkload{
			Slots: int32(agent.slots()), Running: agent.runningAttempts(), Completed: agent.completed, Failed: agent.failed,
		},
	}
}

// runningAttempts lists what an agent holds, by task.
func (a *agentState) runningAttempts() []v1alpha1.RunningAttempt {
	var list []v1alpha1.RunningAttempt
	for _, state := range slices.SortedFunc(maps.Values(a.assignedTasks),
		func(x, y *taskState) int { return cmp.Compare(x.name.Name, y.name.Name) }) {
		list = append(list, v1alpha1.RunningAttempt{Task: state.name.Name, Attempt: state.assignment.attempt,
			Progress: state.assignment.progress})
	}
	return list
}

func (a *agentState) objectKey() types.NamespacedName {
	return types.NamespacedName{Namespace: a.name.Namespace, Name: a.name.Name}
}

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

// An agent is what the board knows about one: from its object, from its stream, and from its assignments.
type agent struct {
	name  link.Agent
	swarm types.NamespacedName

	enrolled bool   // its object exists and declares what it offers
	version  string // of the object
	kind     string
	offers   []string

	attached bool // a stream is open for which Lease was called; cleared by Left
	linked   bool
	process  Process                    // of the last Hello
	named    map[linkv1.AttemptKey]bool // by a Hello from which no conclusions were drawn yet
	partial  bool                       // more is to come
	recorded Process                    // that Agent status names as linked
	offered  int                        // slots, by its Hello
	declared int                        // slots, by its object; 0 while unknown
	draining bool                       // by its own report
	lease    leases
	granted  int64 // Assigns that it accepts on this stream
	sent     int64 // Assigns on this stream

	setbacks int       // in a row
	rests    time.Time // until when it rests after the last one

	leaving   time.Time // since when it is to leave; zero when it is not
	holds     map[types.UID]*entry
	strays    map[linkv1.AttemptKey]*stray
	given     int
	completed int64
	failed    int64
}

// A stray is an attempt that an agent reports and that belongs to no task that the board knows, or that the agent must not run.
type stray struct {
	attempt  *linkv1.Attempt
	process  Process   // that reported it
	ended    bool      // the agent has a result of it, and repeats it until it is acknowledged
	contests bool      // its epoch is impossible: its task waits
	refused  bool      // its task is over or gone, and its agent was informed
	until    time.Time // when it is certainly over; zero while its agent is linked
}

// spareStrays is how many strays of an agent are remembered beyond its slots.
const spareStrays = 16

// addStray remembers an attempt that a linked agent reports, and reports whether there was room for it. An honest agent runs
// no more than it has slots for, and repeats its results.
func (b *Board) addStray(member *agent, lone *stray) bool {
	key := lone.attempt.Key()
	if known := member.strays[key]; known != nil {
		known.process, known.ended, known.until = member.process, lone.ended, time.Time{}
		return true
	}
	lone.process = member.process
	return b.putStray(member, lone)
}

// putStray remembers a stray, and that its task has one, if there is room for it.
func (b *Board) putStray(member *agent, lone *stray) bool {
	key := lone.attempt.Key()
	switch known := member.strays[key]; {
	case known != nil:
		lone.contests = known.contests
	case len(member.strays) >= member.slots()+spareStrays:
		b.config.Refusals.Count(limit.StraysPerAgent)
		return false
	default:
		b.strayed[taskOf(lone.attempt)]++
	}
	member.strays[key] = lone
	return true
}

// removeStray forgets a stray. If it was the last one that contested a task, the task no longer waits for it.
func (b *Board) removeStray(member *agent, lone *stray) {
	delete(member.strays, lone.attempt.Key())
	if task := taskOf(lone.attempt); b.strayed[task] > 1 {
		b.strayed[task]--
	} else {
		delete(b.strayed, task)
	}
	if !lone.contests {
		return
	}
	uid := types.UID(lone.attempt.GetTaskUid())
	if b.contested[uid]--; b.contested[uid] > 0 {
		return
	}
	delete(b.contested, uid)
	if of := b.tasks[taskOf(lone.attempt)]; of != nil && of.uid == uid {
		b.queue(of)
	}
}

func (b *Board) agentOf(name link.Agent) *agent {
	known := b.agents[name]
	if known == nil {
		known = &agent{name: name, holds: map[types.UID]*entry{}, strays: map[linkv1.AttemptKey]*stray{}}
		b.agents[name] = known
	}
	return known
}

// Enrol learns an Agent object and the lease that its type asks for: 0 for the default.
func (b *Board) Enrol(object *v1alpha1.Agent, lease time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	member := b.agentOf(link.Agent{Namespace: object.Namespace, Name: object.Name})
	if member.knowsNewer(object) {
		return // a stale cache shows a lease or a pod that is no longer stored
	}
	member.version = object.ResourceVersion
	if workload := object.Status.Workload; workload != nil && !member.enrolled {
		member.completed, member.failed = member.completed+workload.Completed, member.failed+workload.Failed
	}
	was := *member
	member.recorded = recordedOf(object)
	member.lease.learn(object, cmp.Or(lease, b.config.Lease))
	if member.lease.stored > was.lease.stored {
		b.storeLease(member)
	}
	b.relinkForLease(member)
	member.enrolled, member.kind, member.offers = true, object.Spec.Type, object.Spec.Capabilities
	member.declared = int(object.Spec.Slots)
	member.swarm = types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.SwarmRef.Name}
	member.leave(slices.Contains(b.swarmOf(member.swarm).rules.Leaving, object.Name), time.Now())
	if !was.enrolled || was.recorded != member.recorded || was.swarm != member.swarm || !was.offersLike(member) {
		b.stir(b.swarmOf(member.swarm))
	}
}

// offersLike reports whether an agent may be given the same work as before.
func (a *agent) offersLike(other *agent) bool {
	return a.kind == other.kind && a.slots() == other.slots() && slices.Equal(a.offers, other.offers)
}

func (a *agent) knowsNewer(object *v1alpha1.Agent) bool {
	order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, a.version)
	return err == nil && order < 0
}

// Dismiss forgets the object of an agent. The agent keeps what it holds until that ends.
func (b *Board) Dismiss(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if member := b.agents[link.Agent{Namespace: name.Namespace, Name: name.Name}]; member != nil {
		member.enrolled, member.lease.stored = false, 0
		b.discard(member)
	}
}

// discard drops an agent of which nothing is left.
func (b *Board) discard(member *agent) {
	if member.enrolled || member.hasStream() || member.busy() > 0 || member.lease.stored > 0 || b.isLeased(member, time.Now()) {
		return
	}
	delete(b.agents, member.name)
	for _, lone := range member.strays { // all have ended
		b.removeStray(member, lone)
	}
}

func (a *agent) busy() int {
	running := len(a.holds)
	for _, stray := range a.strays {
		if !stray.ended {
			running++
		}
	}
	return running
}

// hasStream reports whether the agent has a stream, on which it may not have joined yet.
func (a *agent) hasStream() bool { return a.attached || a.linked }

// isHeardOut reports whether conclusions were drawn from the last Hello. An assignment sent before that is missing in Hello,
// and would count as not delivered.
func (a *agent) isHeardOut() bool { return a.named == nil }

// room returns how many more attempts the agent can take now. It gets none before it is heard out, and none before its
// process is recorded: the next leader waits only for processes that are recorded as linked, and a first assignment may be
// sent before it is written.
func (a *agent) room(now time.Time) int {
	if a.recorded != a.process || !a.isHeardOut() {
		return 0
	}
	most := a.slots()
	if a.isTried() {
		most, _ = a.trial(now)
	}
	credit := a.granted - a.sent
	for _, of := range a.holds {
		if !of.held.sent {
			credit--
		}
	}
	return max(0, min(a.slots()-a.busy(), int(credit), most))
}

// slots returns how many attempts the agent may run at once: what it offers, and never more than its object declares.
func (a *agent) slots() int {
	if a.declared == 0 {
		return a.offered
	}
	return min(a.offered, a.declared)
}

// leave records since when the agent is to leave.
func (a *agent) leave(leaving bool, now time.Time) {
	switch {
	case !leaving:
		a.leaving = time.Time{}
	case a.leaving.IsZero():
		a.leaving = now
	}
}

// An AgentView is an agent as the board sees it.
type AgentView struct {
	Linked    bool
	ToRecord  Process   // to be stored as the linked process; the zero value for no change
	Holders   []Process // that hold attempts, or may hold them
	LastHeard time.Time // zero when never
	Leaving   bool
	Lease     time.Duration // to be stored: the longest that the agent may have received; 0 while unknown
	Workload  v1alpha1.AgentWorkload
}

// Agent returns the view of an agent.
func (b *Board) Agent(name types.NamespacedName) AgentView {
	b.mu.Lock()
	defer b.mu.Unlock()
	member := b.agents[link.Agent{Namespace: name.Namespace, Name: name.Name}]
	if member == nil {
		return AgentView{}
	}
	heard, _ := b.link.LastHeard(member.name)
	return AgentView{
		Linked: member.linked, ToRecord: b.processToRecord(member, time.Now()), Holders: b.holders(member), LastHeard: heard, Leaving: !member.leaving.IsZero() || member.draining,
		Lease: b.leaseToStore(member, time.Now()),
		Workload: v1alpha1.AgentWorkload{
			Slots: int32(member.slots()), Running: member.running(), Completed: member.completed, Failed: member.failed,
		},
	}
}

// running lists what an agent holds, by task.
func (a *agent) running() []v1alpha1.RunningAttempt {
	var list []v1alpha1.RunningAttempt
	for _, held := range slices.SortedFunc(maps.Values(a.holds), func(x, y *entry) int { return cmp.Compare(x.name.Name, y.name.Name) }) {
		list = append(list, v1alpha1.RunningAttempt{Task: held.name.Name, Attempt: held.held.attempt, Progress: held.held.progress})
	}
	return list
}

func (a *agent) object() types.NamespacedName {
	return types.NamespacedName{Namespace: a.name.Namespace, Name: a.name.Name}
}

package dispatch

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A Census is what a new leader finds in the cluster.
type Census struct {
	Swarms []v1alpha1.Swarm
	Agents []v1alpha1.Agent
	Tasks  []v1alpha1.Task
	Pods   []corev1.Pod // of agents
	// Succeeds reports whether another leader is known to have existed. It may not have stored anything yet.
	Succeeds bool
}

// errLaterTerm refuses an agent until this leader's term is above everything the agent has seen.
var errLaterTerm = errors.New("this operator has learned of a later term just now: connect again")

// Open begins a leader's term: it raises the term above every stored epoch, takes over what is stored as running, and holds
// back each swarm until its agents have reported what they run. Call it when MayOpen allows it.
func (b *Board) Open(census Census) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if highest := b.highestEpoch(census) >> 32; highest >= b.config.Leadership.Term() {
		b.config.Leadership.RaiseTerm(highest)
	}
	b.opened = time.Now()
	b.await(census)
	for _, task := range b.unfinished(census) {
		if b.mayEnter(task) {
			b.enter(task)
		} else {
			b.joinLine(task)
		}
	}
	b.begin()
	for name := range b.tasks {
		b.config.Tasks.After(name, 0)
	}
}

// unfinished returns the tasks that can run: first those that agents have, then by age, since there may not be room for all.
func (b *Board) unfinished(census Census) []*v1alpha1.Task {
	var tasks []*v1alpha1.Task
	for n := range census.Tasks {
		if task := &census.Tasks[n]; !task.Status.Phase.Final() && !b.isInvalid(epochOf(task)) {
			tasks = append(tasks, task)
		}
	}
	slices.SortFunc(tasks, func(x, y *v1alpha1.Task) int {
		return cmp.Or(
			-cmp.Compare(min(1, len(x.Status.AssignedAgents)), min(1, len(y.Status.AssignedAgents))),
			x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name),
		)
	})
	return tasks
}

// MayOpen reports whether a term may begin with this census, for a leader that is certain to be the only one from the given
// time on. Until then a former leader may store what the census lacks, so a later census is needed.
func (c Census) MayOpen(alone, now time.Time) bool { return !c.Led() || !now.Before(alone) }

// Led reports whether there was a leader before: a new cluster has no Lease either, and no agents to wait for.
func (c Census) Led() bool {
	return c.Succeeds || c.hasEpoch() || slices.ContainsFunc(c.Agents, func(agent v1alpha1.Agent) bool { return lastLinked(&agent) != Process{} })
}

// An awaitedProcess is a process of an agent. Without an ID it is any process of a pod.
type awaitedProcess struct {
	agent   link.Agent
	process Process
}

// await records whose Hello is missing: that of the process that was linked last, of which only the name may be left, and
// that of any process of every other pod that may run something. The node of the first one may not have reported its end; in
// that case the wait ends with its lease.
func (b *Board) await(census Census) {
	for n := range census.Agents {
		agent := &census.Agents[n]
		name := link.Agent{Namespace: agent.Namespace, Name: agent.Name}
		member := b.agentOf(name)
		member.version, member.lease.stored = agent.ResourceVersion, leaseOf(agent)
		told := b.leaseInForce(member) // by the former leader: our Welcome may be lost
		member.lease.mayGoBy(told, b.opened.Add(lapse(told)), b.opened)
		if last := lastLinked(agent); last != (Process{}) {
			swarm := b.swarmOf(types.NamespacedName{Namespace: agent.Namespace, Name: agent.Spec.SwarmRef.Name})
			swarm.awaited[awaitedProcess{name, last}] = b.leaseInForce(member)
			member.swarm, member.recorded = swarm.name, last
			b.config.Agents.After(member.object(), 0) // its pod may prove that the process has ended
		}
	}
	for n := range census.Pods {
		if pod := &census.Pods[n]; !allTerminated(pod) {
			name := link.Agent{Namespace: pod.Namespace, Name: pod.Name}
			swarm := b.swarmOf(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelSwarm]})
			if member := b.agents[name]; member == nil || member.recorded.PodUID != string(pod.UID) {
				swarm.awaited[awaitedProcess{name, Process{PodUID: string(pod.UID)}}] = b.leaseOfPod(name)
			}
		}
	}
}

// leaseOfPod returns the longest lease that an agent may have whose pod is not known to be linked. The Agent object of a
// running pod may have been deleted and recreated. The lease that was sent is then unknown, but nothing is sent before it is
// stored under a lease that is longer than this one.
func (b *Board) leaseOfPod(name link.Agent) time.Duration {
	if member := b.agents[name]; member != nil && member.lease.stored > 0 {
		return b.leaseInForce(member)
	}
	return storeFirst
}

// lastLinked returns the process that was linked last. Status of earlier versions names only its pod, or only the existing pod.
func lastLinked(agent *v1alpha1.Agent) Process {
	if agent.Status.LinkedPodUID == "" && meta.IsStatusConditionTrue(agent.Status.Conditions, v1alpha1.ConditionLinked) {
		return Process{PodUID: agent.Status.PodUID}
	}
	return recordedOf(agent)
}

// recordedOf returns the process that Agent status names as linked.
func recordedOf(agent *v1alpha1.Agent) Process {
	return Process{PodUID: agent.Status.LinkedPodUID, ID: agent.Status.LinkedProcess}
}

// processToRecord returns the process that Agent status should name as linked, or the zero value for no change. Another,
// awaited process of the agent may run what no leader has stored: until that is settled, status keeps naming that process,
// and the next leader waits for it as well.
func (b *Board) processToRecord(member *agent, now time.Time) Process {
	if until := b.formerAwaitedUntil(member); now.Before(until) {
		b.config.Agents.After(member.object(), until.Sub(now))
		return Process{}
	}
	return member.process
}

// formerAwaitedUntil returns until when another process of an agent than the linked one is awaited; zero if there is none.
func (b *Board) formerAwaitedUntil(member *agent) time.Time {
	var until time.Time
	for by, lease := range b.awaitedOf(member) {
		if by != member.process && by != (Process{PodUID: member.process.PodUID}) {
			until = later(until, b.gateEnds(member.name, lease))
		}
	}
	return until
}

// awaitedOf returns the processes of an agent whose Hello is missing, with their leases.
func (b *Board) awaitedOf(member *agent) iter.Seq2[Process, time.Duration] {
	return func(yield func(Process, time.Duration) bool) {
		of := b.swarms[member.swarm]
		if of == nil {
			return
		}
		for awaited, lease := range of.awaited {
			if awaited.agent == member.name && !yield(awaited.process, lease) {
				return
			}
		}
	}
}

// begin lets agents join.
func (b *Board) begin() {
	if !b.Opened() {
		close(b.ready)
	}
}

// Ready is closed by Open: after that, agents can join.
func (b *Board) Ready() <-chan struct{} { return b.ready }

// Opened reports whether agents can join.
func (b *Board) Opened() bool {
	select {
	case <-b.ready:
		return true
	default:
		return false
	}
}

// believedTerm is the highest term that is accepted from stored epochs. A user who may write a status can store any epoch,
// and the term could not grow above the highest one.
const believedTerm = 1 << 30

// EpochInvalid reports whether a Task has an epoch that no leader can have issued, and above which none can be. Such a task cannot run.
func (b *Board) EpochInvalid(task *v1alpha1.Task) bool { return b.isInvalid(epochOf(task)) }

func (b *Board) isInvalid(epoch int64) bool {
	return epoch>>32 > max(believedTerm, b.config.Leadership.Term())
}

// epochOf returns the highest epoch that a Task names.
func epochOf(task *v1alpha1.Task) int64 {
	highest := task.Status.Epoch
	for _, given := range task.Status.AssignedAgents {
		highest = max(highest, given.Epoch)
	}
	return highest
}

// highestEpoch returns the highest stored epoch that is believed.
func (b *Board) highestEpoch(census Census) int64 {
	highest := int64(0)
	for epoch := range census.epochs() {
		if !b.isInvalid(epoch) {
			highest = max(highest, epoch)
		}
	}
	return highest
}

func (c Census) hasEpoch() bool {
	for epoch := range c.epochs() {
		if epoch > 0 {
			return true
		}
	}
	return false
}

// epochs returns all stored epochs.
func (c Census) epochs() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for n := range c.Swarms {
			if !yield(c.Swarms[n].Status.Epoch) {
				return
			}
		}
		for n := range c.Tasks {
			if !yield(epochOf(&c.Tasks[n])) {
				return
			}
		}
	}
}

// heldBack returns until when a swarm's work waits for agents that have not yet reported what they run; zero if it does not wait.
func (b *Board) heldBack(of *swarm, now time.Time) time.Time {
	var until time.Time
	for awaited, lease := range of.awaited {
		if ends := b.gateEnds(awaited.agent, lease); now.Before(ends) {
			until = later(until, ends)
		}
	}
	return until
}

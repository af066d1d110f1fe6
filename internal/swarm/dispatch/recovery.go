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

// A Snapshot is what a new leader finds in the cluster.
type Snapshot struct {
	Swarms []v1alpha1.Swarm
	Agents []v1alpha1.Agent
	Tasks  []v1alpha1.Task
	Pods   []corev1.Pod // of agents
	// HasPredecessor reports whether another leader is known to have existed. It may not have stored anything yet.
	HasPredecessor bool
}

// errLaterTerm refuses an agent until this leader's term is above everything the agent has seen.
var errLaterTerm = errors.New("this operator has learned of a later term just now: connect again")

// Open begins a leader's term: it raises the term above every stored epoch, takes over what is stored as running, and holds
// back each swarm until its agents have reported what they run. Call it when MayOpen allows it.
func (d *Dispatcher) Open(snapshot Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if highest := d.highestEpoch(snapshot) >> 32; highest >= d.config.Leadership.Term() {
		d.config.Leadership.RaiseTerm(highest)
	}
	d.opened = time.Now()
	d.awaitHellos(snapshot)
	for _, task := range d.unfinished(snapshot) {
		if d.mayAdmit(task) {
			d.admit(task)
		} else {
			d.enqueueWaiting(task)
		}
	}
	d.markReady()
	for name := range d.tasks {
		d.config.Tasks.After(name, 0)
	}
}

// unfinished returns the tasks that can run: first those that agents have, then by age, since there may not be room for all.
func (d *Dispatcher) unfinished(snapshot Snapshot) []*v1alpha1.Task {
	var tasks []*v1alpha1.Task
	for n := range snapshot.Tasks {
		if task := &snapshot.Tasks[n]; !task.Status.Phase.Final() && !d.isInvalidEpoch(epochOf(task)) {
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

// MayOpen reports whether a term may begin with this snapshot, for a leader that is certain to be the only one from the given time on.
// Until then a former leader may store what the snapshot lacks, so a later one is needed.
func (s Snapshot) MayOpen(alone, now time.Time) bool { return !s.HadLeader() || !now.Before(alone) }

// HadLeader reports whether there was a leader before: a new cluster has no Lease either, and no agents to wait for.
func (s Snapshot) HadLeader() bool {
	return s.HasPredecessor || s.hasEpoch() || slices.ContainsFunc(s.Agents,
		func(agent v1alpha1.Agent) bool { return lastLinked(&agent) != Process{} })
}

// An awaitedProcess is a process of an agent. Without an ID it is any process of a pod.
type awaitedProcess struct {
	agent   link.Agent
	process Process
}

// awaitHellos records whose Hello is missing: that of the process that was linked last, of which only the name may be left, and
// that of any process of every other pod that may run something. The node of the first one may not have reported its end; in
// that case the wait ends with its lease.
func (d *Dispatcher) awaitHellos(snapshot Snapshot) {
	for n := range snapshot.Agents {
		agent := &snapshot.Agents[n]
		name := link.Agent{Namespace: agent.Namespace, Name: agent.Name}
		state := d.agentOf(name)
		state.objectVersion, state.lease.stored = agent.ResourceVersion, storedLeaseOf(agent)
		granted := d.maxLeaseInUse(state) // by the former leader: our Welcome may be lost
		state.lease.addFormer(granted, d.opened.Add(leaseTimeout(granted)), d.opened)
		if last := lastLinked(agent); last != (Process{}) {
			swarm := d.swarmOf(types.NamespacedName{Namespace: agent.Namespace, Name: agent.Spec.SwarmRef.Name})
			swarm.awaitedProcesses[awaitedProcess{name, last}] = d.maxLeaseInUse(state)
			state.swarm, state.recordedProcess = swarm.name, last
			d.config.Agents.After(state.objectKey(), 0) // its pod may prove that the process has ended
		}
	}
	for n := range snapshot.Pods {
		if pod := &snapshot.Pods[n]; !allTerminated(pod) {
			name := link.Agent{Namespace: pod.Namespace, Name: pod.Name}
			swarm := d.swarmOf(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelSwarm]})
			if state := d.agents[name]; state == nil || state.recordedProcess.PodUID != string(pod.UID) {
				swarm.awaitedProcesses[awaitedProcess{name, Process{PodUID: string(pod.UID)}}] = d.leaseOfPod(name)
			}
		}
	}
}

// leaseOfPod returns the longest lease that an agent may have whose pod is not known to be linked. The Agent object of a
// running pod may have been deleted and recreated. The lease that was sent is then unknown, but nothing is sent before it is
// stored under a lease that is longer than this one.
func (d *Dispatcher) leaseOfPod(name link.Agent) time.Duration {
	if agent := d.agents[name]; agent != nil && agent.lease.stored > 0 {
		return d.maxLeaseInUse(agent)
	}
	return maxUnstoredLease
}

// lastLinked returns the process that was linked last. Status of earlier versions names only its pod, or only the existing pod.
func lastLinked(agent *v1alpha1.Agent) Process {
	if agent.Status.LinkedPodUID == "" && meta.IsStatusConditionTrue(agent.Status.Conditions, v1alpha1.ConditionLinked) {
		return Process{PodUID: agent.Status.PodUID}
	}
	return recordedProcessOf(agent)
}

// recordedProcessOf returns the process that Agent status names as linked.
func recordedProcessOf(agent *v1alpha1.Agent) Process {
	return Process{PodUID: agent.Status.LinkedPodUID, ID: agent.Status.LinkedProcess}
}

// processToRecord returns the process that Agent status should name as linked, or the zero value for no change. Another,
// awaited process of the agent may run what no leader has stored: until that is settled, status keeps naming that process,
// and the next leader waits for it as well.
func (d *Dispatcher) processToRecord(agent *agentState, now time.Time) Process {
	if until := d.formerAwaitedUntil(agent); now.Before(until) {
		d.config.Agents.After(agent.objectKey(), until.Sub(now))
		return Process{}
	}
	return agent.process
}

// formerAwaitedUntil returns until when another process of an agent than the linked one is awaited; zero if there is none.
func (d *Dispatcher) formerAwaitedUntil(agent *agentState) time.Time {
	var until time.Time
	for process, lease := range d.awaitedOf(agent) {
		if process != agent.process && process != (Process{PodUID: agent.process.PodUID}) {
			until = latest(until, d.helloDeadline(agent.name, lease))
		}
	}
	return until
}

// awaitedOf returns the processes of an agent whose Hello is missing, with their leases.
func (d *Dispatcher) awaitedOf(agent *agentState) iter.Seq2[Process, time.Duration] {
	return func(yield func(Process, time.Duration) bool) {
		swarm := d.swarms[agent.swarm]
		if swarm == nil {
			return
		}
		for awaited, lease := range swarm.awaitedProcesses {
			if awaited.agent == agent.name && !yield(awaited.process, lease) {
				return
			}
		}
	}
}

// markReady lets agents join.
func (d *Dispatcher) markReady() {
	if !d.Opened() {
		close(d.ready)
	}
}

// Ready is closed by Open: after that, agents can join.
func (d *Dispatcher) Ready() <-chan struct{} { return d.ready }

// Opened reports whether agents can join.
func (d *Dispatcher) Opened() bool {
	select {
	case <-d.ready:
		return true
	default:
		return false
	}
}

// maxStoredTerm is the highest term that is accepted from stored epochs. A user who may write a status can store any epoch,
// and the term could not grow above the highest one.
const maxStoredTerm = 1 << 30

// HasInvalidEpoch reports whether a Task has an epoch that no leader can have issued, and above which none can be. Such a task cannot run.
func (d *Dispatcher) HasInvalidEpoch(task *v1alpha1.Task) bool {
	return d.isInvalidEpoch(epochOf(task))
}

func (d *Dispatcher) isInvalidEpoch(epoch int64) bool {
	return epoch>>32 > max(maxStoredTerm, d.config.Leadership.Term())
}

// epochOf returns the highest epoch that a Task names.
func epochOf(task *v1alpha1.Task) int64 {
	highest := task.Status.Epoch
	for _, assigned := range task.Status.AssignedAgents {
		highest = max(highest, assigned.Epoch)
	}
	return highest
}

// highestEpoch returns the highest stored epoch that is believed.
func (d *Dispatcher) highestEpoch(snapshot Snapshot) int64 {
	highest := int64(0)
	for epoch := range snapshot.epochs() {
		if !d.isInvalidEpoch(epoch) {
			highest = max(highest, epoch)
		}
	}
	return highest
}

func (s Snapshot) hasEpoch() bool {
	for epoch := range s.epochs() {
		if epoch > 0 {
			return true
		}
	}
	return false
}

// epochs returns all stored epochs.
func (s Snapshot) epochs() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for n := range s.Swarms {
			if !yield(s.Swarms[n].Status.Epoch) {
				return
			}
		}
		for n := range s.Tasks {
			if !yield(epochOf(&s.Tasks[n])) {
				return
			}
		}
	}
}

// recoveringUntil returns until when a swarm's work waits for agents that have not yet reported what they run; zero if it does not wait.
func (d *Dispatcher) recoveringUntil(swarm *swarmState, now time.Time) time.Time {
	var until time.Time
	for awaited, lease := range swarm.awaitedProcesses {
		if ends := d.helloDeadline(awaited.agent, lease); now.Before(ends) {
			until = latest(until, ends)
		}
	}
	return until
}

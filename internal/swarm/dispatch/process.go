package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A Process is one run of an agent's program. Containers restart, and pods of the same name follow one another.
type Process struct {
	PodUID string
	ID     string // "" for agents of versions without processes
}

// processOf returns the process that is stored with an assignment. Earlier versions stored the agent only.
func processOf(assigned v1alpha1.AssignedAgent) Process {
	if assigned.PodUID == "" || assigned.Process == "" {
		return Process{}
	}
	return Process{PodUID: assigned.PodUID, ID: assigned.Process}
}

// mayBelongTo reports whether a process may hold this attempt.
func (a *assignment) mayBelongTo(agent *agentState, process Process) bool {
	return a.agent == agent && (a.process == process || a.process == Process{})
}

// holders returns the processes of an agent that hold attempts, or may hold them because they are awaited or linked. They
// keep them until their lease is over, or until they are known to have ended. A linked process is not necessarily alive: its
// stream may be half open.
func (d *Dispatcher) holders(agent *agentState) []Process {
	var processes []Process
	add := func(process Process) {
		if process.ID != "" && !slices.Contains(processes, process) {
			processes = append(processes, process)
		}
	}
	if agent.linked {
		add(agent.process)
	}
	for _, state := range agent.assignedTasks {
		if state.assignment.sent {
			add(state.assignment.process)
		}
	}
	for _, orphan := range agent.orphans {
		if !orphan.hasResult {
			add(orphan.process)
		}
	}
	for process := range d.awaitedOf(agent) {
		add(process)
	}
	slices.SortFunc(processes, func(x, y Process) int { return cmp.Or(cmp.Compare(x.PodUID, y.PodUID), cmp.Compare(x.ID, y.ID)) })
	return processes
}

// MarkProcessEnded records that a process of an agent has ended, with all of its programs. Call it only on proof.
func (d *Dispatcher) MarkProcessEnded(name types.NamespacedName, process Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if agent := d.agents[link.Agent{Namespace: name.Namespace, Name: name.Name}]; agent != nil && process.ID != "" {
		d.removeProcess(agent, process)
		if agent.linked && agent.process == process {
			d.link.Disconnect(agent.name, time.Now())
		}
		d.removeIfUnused(agent)
	}
}

// removeProcess gives up what an ended process had. Results of known tasks that it has reported still count.
func (d *Dispatcher) removeProcess(agent *agentState, process Process) {
	for _, state := range agent.assignedTasks {
		if state.assignment.sent && state.assignment.process == process {
			d.markLost(state, "its process has ended")
		}
	}
	for key, orphan := range agent.orphans {
		if orphan.process == process {
			d.dropOrphan(agent, key)
		}
	}
	d.stopAwaiting(agent, process)
}

// HasEnded reports whether a pod's status proves that a process has ended: a container of it was terminated, the kubelet has
// seen that, and the process had left its name in the termination message when it started. A phase proves nothing: for a lost
// node, the control plane writes it.
func HasEnded(pod *corev1.Pod, process Process) bool {
	return string(pod.UID) == process.PodUID && process.ID != "" && slices.ContainsFunc(pod.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool {
			return namesProcess(c.State.Terminated, process) || namesProcess(c.LastTerminationState.Terminated, process)
		})
}

func namesProcess(terminated *corev1.ContainerStateTerminated, process Process) bool {
	return isSeenTerminated(terminated) && strings.TrimSpace(terminated.Message) == process.ID
}

// isSeenTerminated reports whether the kubelet has seen a container end.
func isSeenTerminated(terminated *corev1.ContainerStateTerminated) bool {
	return terminated != nil && terminated.ContainerID != "" && terminated.Reason != "ContainerStatusUnknown"
}

// allTerminated reports whether a pod is over and the kubelet has seen each of its containers end.
func allTerminated(pod *corev1.Pod) bool {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return over && len(pod.Status.ContainerStatuses) > 0 &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !isSeenTerminated(c.State.Terminated) })
}

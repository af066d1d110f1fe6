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
func processOf(given v1alpha1.AssignedAgent) Process {
	if given.PodUID == "" || given.Process == "" {
		return Process{}
	}
	return Process{PodUID: given.PodUID, ID: given.Process}
}

// mayBeOf reports whether a process may hold this attempt.
func (h *hold) mayBeOf(member *agent, by Process) bool {
	return h.agent == member && (h.process == by || h.process == Process{})
}

// holders returns the processes of an agent that hold attempts, or may hold them because they are awaited or linked. They
// keep them until their lease is over, or until they are known to have ended. A linked process is not necessarily alive: its
// stream may be half open.
func (b *Board) holders(member *agent) []Process {
	var list []Process
	add := func(by Process) {
		if by.ID != "" && !slices.Contains(list, by) {
			list = append(list, by)
		}
	}
	if member.linked {
		add(member.process)
	}
	for _, of := range member.holds {
		if of.held.sent {
			add(of.held.process)
		}
	}
	for _, lone := range member.strays {
		if !lone.ended {
			add(lone.process)
		}
	}
	for by := range b.awaitedOf(member) {
		add(by)
	}
	slices.SortFunc(list, func(x, y Process) int { return cmp.Or(cmp.Compare(x.PodUID, y.PodUID), cmp.Compare(x.ID, y.ID)) })
	return list
}

// Ended records that a process of an agent has ended, with all of its programs. Call it only on proof.
func (b *Board) Ended(name types.NamespacedName, process Process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if member := b.agents[link.Agent{Namespace: name.Namespace, Name: name.Name}]; member != nil && process.ID != "" {
		b.bury(member, process)
		if member.linked && member.process == process {
			b.link.Disconnect(member.name, time.Now())
		}
		b.discard(member)
	}
}

// bury gives up what an ended process had. Results of known tasks that it has reported still count.
func (b *Board) bury(member *agent, ended Process) {
	for _, of := range member.holds {
		if of.held.sent && of.held.process == ended {
			b.lose(of, "its process has ended")
		}
	}
	for key, lone := range member.strays {
		if lone.process == ended {
			b.drop(member, key)
		}
	}
	b.hasSpoken(member, ended)
}

// HasEnded reports whether a pod's status proves that a process has ended: a container of it was terminated, the kubelet has
// seen that, and the process had left its name in the termination message when it started. A phase proves nothing: for a lost
// node, the control plane writes it.
func HasEnded(pod *corev1.Pod, process Process) bool {
	return string(pod.UID) == process.PodUID && process.ID != "" && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return names(c.State.Terminated, process) || names(c.LastTerminationState.Terminated, process)
	})
}

func names(terminated *corev1.ContainerStateTerminated, process Process) bool {
	return seen(terminated) && strings.TrimSpace(terminated.Message) == process.ID
}

// seen reports whether the kubelet has seen a container end.
func seen(terminated *corev1.ContainerStateTerminated) bool {
	return terminated != nil && terminated.ContainerID != "" && terminated.Reason != "ContainerStatusUnknown"
}

// allTerminated reports whether a pod is over and the kubelet has seen each of its containers end.
func allTerminated(pod *corev1.Pod) bool {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return over && len(pod.Status.ContainerStatuses) > 0 &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !seen(c.State.Terminated) })
}

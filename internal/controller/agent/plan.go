package agent

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/internal/swarm/topology"
)

// A Plan is the status to write.
type Plan struct {
	Status v1alpha1.AgentStatus // without conditions
	Ready  metav1.Condition
	Linked metav1.Condition
}

// plan computes the status.
func plan(agent *v1alpha1.Agent, snapshot snapshot) Plan {
	p := Plan{Status: *agent.Status.DeepCopy(), Linked: linkedCondition(agent, snapshot)}
	p.Status.ObservedGeneration = agent.Generation
	p.Status.Peers = peerNames(agent, snapshot.swarm)
	p.Status.PodName, p.Status.PodUID = "", ""
	if snapshot.pod != nil {
		p.Status.PodName, p.Status.PodUID = snapshot.pod.Name, string(snapshot.pod.UID)
	}
	if linked := snapshot.view.ProcessToRecord; linked.PodUID != "" {
		p.Status.LinkedPodUID, p.Status.LinkedProcess = linked.PodUID, linked.ID
	}
	p.Status.LeaseSeconds = int32((snapshot.view.Lease + time.Second - 1) / time.Second)
	if snapshot.view.Linked || p.Status.Workload != nil {
		workload := snapshot.view.Workload
		p.Status.Workload = &workload
	}
	if heard := snapshot.view.LastHeard; !heard.IsZero() && linkedStatus(agent) != p.Linked.Status {
		p.Status.LastHeartbeat = new(metav1.NewTime(heard.Truncate(1e9)))
	}
	p.Status.Phase, p.Ready = readyCondition(agent, snapshot)
	return p
}

// linkedStatus returns whether the agent is currently shown as linked.
func linkedStatus(agent *v1alpha1.Agent) metav1.ConditionStatus {
	for _, condition := range agent.Status.Conditions {
		if condition.Type == v1alpha1.ConditionLinked {
			return condition.Status
		}
	}
	return metav1.ConditionUnknown
}

func linkedCondition(agent *v1alpha1.Agent, snapshot snapshot) metav1.Condition {
	switch {
	case snapshot.view.Linked:
		return v1alpha1.Linked(agent.Generation)
	case linkedStatus(agent) == metav1.ConditionTrue || agent.Status.LastHeartbeat != nil:
		return v1alpha1.Unlinked(agent.Generation, v1alpha1.ReasonLinkLost, "the agent's stream to the operator is gone")
	}
	return v1alpha1.Unlinked(agent.Generation, v1alpha1.ReasonLinkPending, "the agent has not yet connected to the operator")
}

// readyCondition decides whether the agent takes work and, if not, what has to happen first.
func readyCondition(agent *v1alpha1.Agent, snapshot snapshot) (v1alpha1.AgentPhase, metav1.Condition) {
	notReady := func(phase v1alpha1.AgentPhase, reason v1alpha1.Reason, format string, arguments ...any) (v1alpha1.AgentPhase,
		metav1.Condition) {
		return phase, v1alpha1.NotReady(agent.Generation, reason, fmt.Sprintf(format, arguments...))
	}
	switch {
	case snapshot.swarm == nil:
		return notReady(v1alpha1.AgentPending, v1alpha1.ReasonSwarmNotFound,
			"there is no Swarm %q in namespace %q: Agents are made by their Swarm", agent.Spec.SwarmRef.Name, agent.Namespace)
	case !hasType(snapshot.swarm, agent.Spec.Type):
		return notReady(v1alpha1.AgentPending, v1alpha1.ReasonTypeNotFound, "Swarm %q has no agent type %q: add it, or delete this Agent",
			snapshot.swarm.Name, agent.Spec.Type)
	case snapshot.view.Linked && snapshot.view.Leaving:
		return notReady(v1alpha1.AgentRunning, v1alpha1.ReasonDraining, "the agent finishes what it holds and gets nothing new")
	case snapshot.view.Linked:
		return v1alpha1.AgentRunning, v1alpha1.Ready(agent.Generation, v1alpha1.ReasonLinked, "the agent is linked and takes work")
	case snapshot.pod == nil:
		return notReady(v1alpha1.AgentPending, v1alpha1.ReasonPodPending, "there is no pod %q yet: see the events of StatefulSet %s-%s",
			agent.Name, agent.Spec.SwarmRef.Name, agent.Spec.Type)
	}
	if failure := podFailure(snapshot.pod); failure != "" {
		return notReady(v1alpha1.AgentFailed, v1alpha1.ReasonPodFailed, "%s", failure)
	}
	if condition := meta.FindStatusCondition(agent.Status.Conditions,
		v1alpha1.ConditionReady); condition != nil && remainsFailed(agent, snapshot.pod) {
		return v1alpha1.AgentFailed, *condition
	}
	if pending := pendingReason(snapshot.pod); pending != "" {
		return notReady(v1alpha1.AgentPending, v1alpha1.ReasonPodPending, "%s", pending)
	}
	return notReady(v1alpha1.AgentPending, v1alpha1.ReasonLinkPending,
		"the pod runs, but the agent has not connected to the operator: see kubectl logs %s", agent.Name)
}

// remainsFailed keeps the failed phase of a pod that runs between crashes until it has linked.
func remainsFailed(agent *v1alpha1.Agent, pod *corev1.Pod) bool {
	return agent.Status.Phase == v1alpha1.AgentFailed && agent.Status.PodUID == string(pod.UID) &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
}

func hasType(swarm *v1alpha1.Swarm, kind string) bool {
	return slices.ContainsFunc(swarm.Spec.Agents, func(declared v1alpha1.AgentType) bool { return declared.Type == kind })
}

// pendingReason returns why a pod does not run yet, or "".
func pendingReason(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		return ""
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "the pod is not scheduled: " + condition.Message
		}
	}
	return "the pod is starting"
}

// maxStatusPeers limits the peers in the status. With all of them, a mesh of 1,000 would store 60 MB, and again for each change of its
// size.
const maxStatusPeers = 64

// peerNames returns the first peers of this agent, in the order of the topology.
func peerNames(agent *v1alpha1.Agent, swarm *v1alpha1.Swarm) []string {
	if swarm == nil {
		return nil
	}
	names := manifest.Swarm{Swarm: swarm, Counts: desiredCounts(swarm)}.AgentNames()
	index := slices.Index(names, agent.Name)
	if index < 0 {
		return nil
	}
	graph := topology.Graph{Shape: topology.Shape(swarm.Spec.Topology), Size: len(names)}
	counts := graph.Peers(index)
	var peers []string
	for _, peer := range counts[:min(len(counts), maxStatusPeers)] {
		peers = append(peers, names[peer])
	}
	return peers
}

// desiredCounts returns the numbers of agents that the swarm controller has decided on.
func desiredCounts(swarm *v1alpha1.Swarm) []int {
	counts := make([]int, len(swarm.Spec.Agents))
	for n, kind := range swarm.Spec.Agents {
		for _, status := range swarm.Status.Types {
			if status.Type == kind.Type {
				counts[n] = int(status.Desired)
			}
		}
	}
	return counts
}

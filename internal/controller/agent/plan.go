package agent

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/internal/topology"
)

// A Plan is the status to write.
type Plan struct {
	Status v1alpha1.AgentStatus // without conditions
	Ready  metav1.Condition
	Linked metav1.Condition
}

// plan computes the status.
func plan(agent *v1alpha1.Agent, world world) Plan {
	p := Plan{Status: *agent.Status.DeepCopy(), Linked: linked(agent, world)}
	p.Status.ObservedGeneration = agent.Generation
	p.Status.Peers = peers(agent, world.swarm)
	p.Status.PodName, p.Status.PodUID = "", ""
	if world.pod != nil {
		p.Status.PodName, p.Status.PodUID = world.pod.Name, string(world.pod.UID)
	}
	if linked := world.view.ProcessToRecord; linked.PodUID != "" {
		p.Status.LinkedPodUID, p.Status.LinkedProcess = linked.PodUID, linked.ID
	}
	p.Status.LeaseSeconds = int32((world.view.Lease + time.Second - 1) / time.Second)
	if world.view.Linked || p.Status.Workload != nil {
		workload := world.view.Workload
		p.Status.Workload = &workload
	}
	if heard := world.view.LastHeard; !heard.IsZero() && stateOf(agent) != p.Linked.Status {
		p.Status.LastHeartbeat = new(metav1.NewTime(heard.Truncate(1e9)))
	}
	p.Status.Phase, p.Ready = ready(agent, world)
	return p
}

// stateOf returns whether the agent is currently shown as linked.
func stateOf(agent *v1alpha1.Agent) metav1.ConditionStatus {
	for _, condition := range agent.Status.Conditions {
		if condition.Type == v1alpha1.ConditionLinked {
			return condition.Status
		}
	}
	return metav1.ConditionUnknown
}

func linked(agent *v1alpha1.Agent, world world) metav1.Condition {
	switch {
	case world.view.Linked:
		return v1alpha1.Linked(agent.Generation)
	case stateOf(agent) == metav1.ConditionTrue || agent.Status.LastHeartbeat != nil:
		return v1alpha1.Unlinked(agent.Generation, v1alpha1.ReasonLinkLost, "the agent's stream to the operator is gone")
	}
	return v1alpha1.Unlinked(agent.Generation, v1alpha1.ReasonLinkPending, "the agent has not yet connected to the operator")
}

// ready decides whether the agent takes work and, if not, what has to happen first.
func ready(agent *v1alpha1.Agent, world world) (v1alpha1.AgentPhase, metav1.Condition) {
	not := func(phase v1alpha1.AgentPhase, reason v1alpha1.Reason, format string, arguments ...any) (v1alpha1.AgentPhase, metav1.Condition) {
		return phase, v1alpha1.NotReady(agent.Generation, reason, fmt.Sprintf(format, arguments...))
	}
	switch {
	case world.swarm == nil:
		return not(v1alpha1.AgentPending, v1alpha1.ReasonSwarmNotFound, "there is no Swarm %q in namespace %q: Agents are made by their Swarm", agent.Spec.SwarmRef.Name, agent.Namespace)
	case !declares(world.swarm, agent.Spec.Type):
		return not(v1alpha1.AgentPending, v1alpha1.ReasonTypeNotFound, "Swarm %q has no agent type %q: add it, or delete this Agent", world.swarm.Name, agent.Spec.Type)
	case world.view.Linked && world.view.Leaving:
		return not(v1alpha1.AgentRunning, v1alpha1.ReasonDraining, "the agent finishes what it holds and gets nothing new")
	case world.view.Linked:
		return v1alpha1.AgentRunning, v1alpha1.Ready(agent.Generation, v1alpha1.ReasonLinked, "the agent is linked and takes work")
	case world.pod == nil:
		return not(v1alpha1.AgentPending, v1alpha1.ReasonPodPending, "there is no pod %q yet: see the events of StatefulSet %s-%s", agent.Name, agent.Spec.SwarmRef.Name, agent.Spec.Type)
	}
	if trouble := troubleOf(world.pod); trouble != "" {
		return not(v1alpha1.AgentFailed, v1alpha1.ReasonPodFailed, "%s", trouble)
	}
	if known := meta.FindStatusCondition(agent.Status.Conditions, v1alpha1.ConditionReady); known != nil && stillFailed(agent, world.pod) {
		return v1alpha1.AgentFailed, *known
	}
	if pending := pendingOf(world.pod); pending != "" {
		return not(v1alpha1.AgentPending, v1alpha1.ReasonPodPending, "%s", pending)
	}
	return not(v1alpha1.AgentPending, v1alpha1.ReasonLinkPending, "the pod runs, but the agent has not connected to the operator: see kubectl logs %s", agent.Name)
}

// stillFailed keeps the failed phase of a pod that is running between crashes: it has yet to link.
func stillFailed(agent *v1alpha1.Agent, pod *corev1.Pod) bool {
	return agent.Status.Phase == v1alpha1.AgentFailed && agent.Status.PodUID == string(pod.UID) &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
}

func declares(swarm *v1alpha1.Swarm, kind string) bool {
	return slices.ContainsFunc(swarm.Spec.Agents, func(declared v1alpha1.AgentType) bool { return declared.Type == kind })
}

// pendingOf returns why a pod does not run yet, or "".
func pendingOf(pod *corev1.Pod) string {
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

// shownPeers limits the peers in the status. With all of them, a mesh of 1,000 would store 60 MB, and again for each change of its size.
const shownPeers = 64

// peers returns the first peers of this agent, in the order of the topology.
func peers(agent *v1alpha1.Agent, swarm *v1alpha1.Swarm) []string {
	if swarm == nil {
		return nil
	}
	names := manifest.Swarm{Swarm: swarm, Counts: counts(swarm)}.AgentNames()
	at := slices.Index(names, agent.Name)
	if at < 0 {
		return nil
	}
	graph := topology.Graph{Shape: topology.Shape(swarm.Spec.Topology), Size: len(names)}
	all := graph.Peers(at)
	var list []string
	for _, peer := range all[:min(len(all), shownPeers)] {
		list = append(list, names[peer])
	}
	return list
}

// counts returns the numbers of agents that the swarm controller has decided on.
func counts(swarm *v1alpha1.Swarm) []int {
	all := make([]int, len(swarm.Spec.Agents))
	for n, kind := range swarm.Spec.Agents {
		for _, settled := range swarm.Status.Types {
			if settled.Type == kind.Type {
				all[n] = int(settled.Desired)
			}
		}
	}
	return all
}

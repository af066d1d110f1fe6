package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

func newAgent(conditions ...metav1.Condition) *v1alpha1.Agent {
	return &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "research-coder-0", Generation: 1},
		Spec:       v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "research"}, Type: "coder", Slots: 1},
		Status:     v1alpha1.AgentStatus{Conditions: conditions},
	}
}

func newSwarm(topology v1alpha1.Topology) *v1alpha1.Swarm {
	return &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "research"},
		Spec:       v1alpha1.SwarmSpec{Topology: topology, Agents: []v1alpha1.AgentType{{Type: "coder"}, {Type: v1alpha1.AgentTypeCoordinator}}},
		Status: v1alpha1.SwarmStatus{Types: []v1alpha1.AgentTypeStatus{{Type: "coder", Desired: 2},
			{Type: v1alpha1.AgentTypeCoordinator, Desired: 1}}},
	}
}

func runningPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "research-coder-0", UID: "p1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if change != nil {
		change(pod)
	}
	return pod
}

func withWaitingContainer(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "agent", Image: "example/coder:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}}
	}
}

// withTerminatedInitContainer returns a pod whose init container has ended, after some restarts.
func withTerminatedInitContainer(code, restarts int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "setup", RestartCount: restarts, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		}}
	}
}

func TestPhaseAndReadyCondition(t *testing.T) {
	mesh := newSwarm(v1alpha1.TopologyMesh)
	wasFailed := newAgent(v1alpha1.NotReady(1, v1alpha1.ReasonPodFailed, "it crashes"))
	wasFailed.Status.Phase, wasFailed.Status.PodUID = v1alpha1.AgentFailed, "p1"
	for _, c := range []struct {
		why     string
		agent   *v1alpha1.Agent
		world   snapshot
		phase   v1alpha1.AgentPhase
		reason  v1alpha1.Reason
		message string
	}{
		{"no such swarm", newAgent(), snapshot{}, v1alpha1.AgentPending, v1alpha1.ReasonSwarmNotFound, `no Swarm "research"`},
		{"no such type", newAgent(), snapshot{swarm: &v1alpha1.Swarm{}}, v1alpha1.AgentPending, v1alpha1.ReasonTypeNotFound,
			`no agent type "coder"`},
		{"no pod yet", newAgent(), snapshot{swarm: mesh}, v1alpha1.AgentPending, v1alpha1.ReasonPodPending, "StatefulSet research-coder"},
		{"the pod starts", newAgent(), snapshot{swarm: mesh, pod: runningPod(withWaitingContainer("ContainerCreating"))}, v1alpha1.AgentPending,
			v1alpha1.ReasonPodPending, "starting"},
		{"no node takes the pod", newAgent(), snapshot{swarm: mesh, pod: runningPod(func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodPending
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/3 nodes are available"}}
		})}, v1alpha1.AgentPending, v1alpha1.ReasonPodPending, "0/3 nodes are available"},
		{"an image that does not exist", newAgent(), snapshot{swarm: mesh, pod: runningPod(withWaitingContainer("ImagePullBackOff"))},
			v1alpha1.AgentFailed, v1alpha1.ReasonPodFailed, "example/coder:1"},
		{"a crash loop", newAgent(), snapshot{swarm: mesh, pod: runningPod(withWaitingContainer("CrashLoopBackOff"))}, v1alpha1.AgentFailed,
			v1alpha1.ReasonPodFailed, "see its logs"},
		{"ended between two crashes", newAgent(), snapshot{swarm: mesh, pod: runningPod(withTerminatedInitContainer(2, 3))}, v1alpha1.AgentFailed,
			v1alpha1.ReasonPodFailed, "it last ended with code 2"},
		{"ended once", newAgent(), snapshot{swarm: mesh, pod: runningPod(withTerminatedInitContainer(2, 0))}, v1alpha1.AgentPending,
			v1alpha1.ReasonPodPending, "starting"},
		{"done, and started again", newAgent(), snapshot{swarm: mesh, pod: runningPod(withTerminatedInitContainer(0, 1))}, v1alpha1.AgentPending,
			v1alpha1.ReasonPodPending, "starting"},
		{"up between two crashes", wasFailed, snapshot{swarm: mesh, pod: runningPod(func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: 3}}
		})}, v1alpha1.AgentFailed, v1alpha1.ReasonPodFailed, "it crashes"},
		{"the pod runs and the agent is silent", newAgent(), snapshot{swarm: mesh, pod: runningPod(nil)}, v1alpha1.AgentPending,
			v1alpha1.ReasonLinkPending, "kubectl logs"},
		{"linked", newAgent(), snapshot{swarm: mesh, pod: runningPod(nil), view: dispatch.AgentView{Linked: true}}, v1alpha1.AgentRunning,
			v1alpha1.ReasonLinked, "takes work"},
		{"linked after failing", wasFailed, snapshot{swarm: mesh, pod: runningPod(nil), view: dispatch.AgentView{Linked: true}},
			v1alpha1.AgentRunning, v1alpha1.ReasonLinked, "takes work"},
		{"about to leave", newAgent(), snapshot{swarm: mesh, pod: runningPod(nil), view: dispatch.AgentView{Linked: true, Leaving: true}},
			v1alpha1.AgentRunning, v1alpha1.ReasonDraining, "nothing new"},
	} {
		t.Run(c.why, func(t *testing.T) {
			got := plan(c.agent, c.world)
			if got.Status.Phase != c.phase || got.Ready.Reason != string(c.reason) || !strings.Contains(got.Ready.Message, c.message) {
				t.Errorf("got %s, %s: %q", got.Status.Phase, got.Ready.Reason, got.Ready.Message)
			}
		})
	}
}

func TestHeartbeatIsWrittenOnlyWhenTheLinkChanges(t *testing.T) {
	heard := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	linked := dispatch.AgentView{Linked: true, LastHeard: heard}
	first := plan(newAgent(), snapshot{swarm: newSwarm(v1alpha1.TopologyMesh), pod: runningPod(nil), view: linked})
	if first.Status.LastHeartbeat == nil || !first.Status.LastHeartbeat.Time.Equal(heard) {
		t.Fatalf("got %v when the link came", first.Status.LastHeartbeat)
	}
	agent := newAgent(v1alpha1.Linked(1))
	agent.Status.LastHeartbeat = first.Status.LastHeartbeat
	linked.LastHeard = heard.Add(time.Hour)
	if later := plan(agent, snapshot{swarm: newSwarm(v1alpha1.TopologyMesh), pod: runningPod(nil),
		view: linked}); !later.Status.LastHeartbeat.Time.Equal(heard) {
		t.Errorf("got %v while nothing changed", later.Status.LastHeartbeat)
	}
	linked.Linked = false
	lost := plan(agent, snapshot{swarm: newSwarm(v1alpha1.TopologyMesh), pod: runningPod(nil), view: linked})
	if !lost.Status.LastHeartbeat.Time.Equal(heard.Add(time.Hour)) || lost.Linked.Reason != string(v1alpha1.ReasonLinkLost) {
		t.Errorf("got %v, %s when the link went", lost.Status.LastHeartbeat, lost.Linked.Reason)
	}
}

func TestPeersFollowTheTopology(t *testing.T) {
	for topology, want := range map[v1alpha1.Topology]string{
		v1alpha1.TopologyMesh: "research-coordinator-0 research-coder-1",
		v1alpha1.TopologyStar: "research-coordinator-0", // the coordinator is the first agent, and thus the hub
	} {
		got := plan(newAgent(), snapshot{swarm: newSwarm(topology)}).Status.Peers
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", topology, got, want)
		}
	}
}

func TestNumberOfPeersIsBounded(t *testing.T) {
	swarm := newSwarm(v1alpha1.TopologyMesh)
	var before []string
	for _, size := range []int32{70, 1000, 900} {
		swarm.Status.Types[0].Desired = size
		got := plan(newAgent(), snapshot{swarm: swarm}).Status.Peers
		if len(got) != maxStatusPeers || got[0] != "research-coordinator-0" || before != nil && !slices.Equal(got, before) {
			t.Errorf("%d agents: %d peers, %v: Agents are written again for each change of the size", size, len(got), got)
		}
		before = got
	}
}

// The next leader waits for the process that is stored as linked, and uses the stored lease: neither may come from the cache of pods or
// from the configuration.
func TestStatusNamesTheLinkedPodAndItsLease(t *testing.T) {
	agent := newAgent()
	agent.Status.LinkedPodUID, agent.Status.LinkedProcess, agent.Status.LeaseSeconds = "p0", "q0", 60
	linked := func(pod, process string, lease time.Duration) dispatch.AgentView {
		return dispatch.AgentView{ProcessToRecord: dispatch.Process{PodUID: pod, ID: process}, Linked: true, Lease: lease}
	}
	successor := runningPod(nil)
	for reason, c := range map[string]struct {
		view         dispatch.AgentView
		pod, process string
		leases       int32
	}{
		"nothing was heard of the successor": {dispatch.AgentView{Lease: time.Minute}, "p0", "q0", 60},
		"the former pod is linked":           {linked("p0", "q0", time.Minute), "p0", "q0", 60},
		"its next process is linked":         {linked("p0", "q1", time.Minute), "p0", "q1", 60},
		"the successor is linked":            {linked("p1", "q1", 45*time.Second), "p1", "q1", 45},
		"it does not name its process":       {linked("p1", "", 45*time.Second), "p1", "", 45},
		"a lease between two seconds":        {linked("p1", "q1", 45*time.Second+1), "p1", "q1", 46},
	} {
		got := plan(agent, snapshot{swarm: newSwarm(v1alpha1.TopologyMesh), pod: successor, view: c.view}).Status
		if got.LinkedPodUID != c.pod || got.LinkedProcess != c.process || got.LeaseSeconds != c.leases || got.PodUID != "p1" {
			t.Errorf("%s: linked process %q of pod %q with a lease of %d s, pod %q", reason, got.LinkedProcess, got.LinkedPodUID, got.LeaseSeconds,
				got.PodUID)
		}
	}
}

// Only processes that the status of this pod proves to have ended are given up.
func TestProcessesThatHaveEnded(t *testing.T) {
	pod := runningPod(func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: "containerd://1", Reason: "Error", Message: "q1"},
		}}}
	})
	ended, lives, elsewhere := dispatch.Process{PodUID: "p1", ID: "q1"}, dispatch.Process{PodUID: "p1", ID: "q2"},
		dispatch.Process{PodUID: "p0", ID: "q1"}
	view := dispatch.AgentView{Holders: []dispatch.Process{lives, ended, elsewhere}}
	if got := (snapshot{pod: pod, view: view}).endedProcesses(); !slices.Equal(got, []dispatch.Process{ended}) {
		t.Errorf("ended: %v", got)
	}
	if got := (snapshot{view: view}).endedProcesses(); got != nil {
		t.Errorf("ended without a pod: %v", got)
	}
	if len(view.Holders) != 3 || view.Holders[1] != ended {
		t.Errorf("the holders were changed: %v", view.Holders)
	}
}

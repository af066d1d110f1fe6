package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	namespace = "robustness"
	swarm     = "ants"
	agents    = 8
	slots     = 4
)

// A kind is an agent type.
type kind struct {
	name      string
	lease     time.Duration
	arguments []string
}

// kinds are the agent types. Agents are shared out over them one by one.
var kinds = []kind{
	{"worker", agentLease, []string{agentArgument}},
	{"program", agentLease, []string{agentArgument, programsArgument}},
	{"patient", longLease, []string{agentArgument}}, // whatever it is given is stored first
}

// podName is that of an agent's pod.
func podName(agent int) string {
	return fmt.Sprintf("%s-%s-%d", swarm, kindOf(agent).name, agent/len(kinds))
}

func kindOf(agent int) kind { return kinds[agent%len(kinds)] }

// otherLease is the lease that a type gets for a while.
func (k kind) otherLease() time.Duration {
	if k.lease == agentLease {
		return longLease
	}
	return agentLease
}

// changeLease changes the lease of an agent's type, and changes it back. A longer lease is announced at once, and stays stored until the
// agents that go by it know the shorter one and the longer one has run out.
func (r *Run) changeLease(ctx context.Context, f fault) bool {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	r.recordFault(f)
	if r.setLease(limited, f.agent, kindOf(f.agent).otherLease()) != nil {
		return false
	}
	pause(ctx, f.duration)
	persist(r.backgroundCtx, func(ctx context.Context) error { return r.setLease(ctx, f.agent, kindOf(f.agent).lease) })
	return true
}

// setLease changes the lease of an agent's type.
func (r *Run) setLease(ctx context.Context, agent int, lease time.Duration) error {
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/agents/%d/leaseSeconds","value":%d}]`, agent%len(kinds), int(lease.Seconds()))
	changed := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: swarm}}
	return r.api.Patch(ctx, changed, client.RawPatch(types.JSONPatchType, patch))
}

// hasShortLease reports whether a new leader would wait for an agent no longer than for the shortest lease.
func (r *Run) hasShortLease(ctx context.Context, agent int) bool {
	found := &v1alpha1.Agent{}
	err := r.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: podName(agent)}, found)
	return err == nil && found.Status.LeaseSeconds == int32(agentLease.Seconds())
}

// createSwarm creates the swarm and waits until it works.
func (r *Run) createSwarm(ctx context.Context) error {
	object := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: swarm},
		Spec: v1alpha1.SwarmSpec{
			Replicas: new(int32(agents)), MaxAgents: agents + 1,
			Tasks: v1alpha1.TaskLimits{FinishedLimit: new(int32(100_000)), TTLSecondsAfterFinished: new(int32(24 * 3600))}, // until they are judged
		},
	}
	for _, kind := range kinds {
		container := corev1.Container{Name: "agent", Image: "localhost/simulated:1", Args: kind.arguments}
		object.Spec.Agents = append(object.Spec.Agents, v1alpha1.AgentType{
			Type: kind.name, Slots: slots, LeaseSeconds: int32(kind.lease.Seconds()),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		})
	}
	if err := r.api.Create(ctx, object); err != nil {
		return fmt.Errorf("create swarm: %w", err)
	}
	output, err := exec.CommandContext(ctx, "kubectl", "wait", "--namespace", namespace, "swarm/"+swarm, "--for=condition=Ready",
		"--timeout=2m").CombinedOutput()
	if err != nil {
		return fmt.Errorf("wait for the swarm: %w: %s", err, output)
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// leaseName is that of the leader election.
const leaseName = "swarm-operator"

// Inject lets faults happen until the context ends, and returns when all of them are over.
func (r *Run) Inject(ctx context.Context, planned *schedule) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		next := planned.next()
		pause(ctx, next.after)
		if ctx.Err() != nil {
			return
		}
		all.Go(func() {
			if r.inject(ctx, next) {
				return
			}
			fmt.Fprintln(r.log, "not injected:", next)
		})
	}
}

// inject has one fault begin and end. It reports whether it began: there may be no target for it.
func (r *Run) inject(ctx context.Context, f fault) bool {
	switch f.kind {
	case killAgent, suspendAgent:
		return r.harmAgent(ctx, f)
	case cutLink, severLink, slowLink, loseMessages:
		return r.harmLink(ctx, f)
	case killAPIServer, suspendAPIServer:
		return r.harmAPIServer(ctx, f)
	case deleteLease:
		return r.deleteLease(ctx, f)
	case forceDeletePod, deletePod, relabelPod:
		return r.harmPod(ctx, f)
	case deleteAgent:
		return r.deleteAgent(ctx, f)
	case changeLease:
		return r.changeLease(ctx, f)
	}
	return r.harmOperator(ctx, f)
}

// begins notes a fault. What comes of it cannot be in the journal before.
func (r *Run) begins(f fault) {
	r.journal.Write(Event{Kind: faulted, Note: f.String()})
	r.faults.Add(f.kind)
}

// faultCounts counts faults by kind.
type faultCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *faultCounts) Add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[kind]++
}

// Missing returns a kind that happened less often than wanted, if there is one.
func (c *faultCounts) Missing(wanted int) (kind string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return missingFault(c.counts, wanted)
}

func missingFault(counts map[string]int, wanted int) (kind string, found bool) {
	for _, kind := range faultKinds() {
		if counts[kind] < wanted {
			return kind, true
		}
	}
	return "", false
}

func (r *Run) harmAgent(ctx context.Context, f fault) bool {
	agent := r.kubelet.Agent(podName(f.agent))
	if agent == nil {
		return false
	}
	r.begins(f)
	if f.kind == killAgent {
		agent.kill(f.report)
		return true
	}
	return agent.suspend(ctx, f.long)
}

func (r *Run) harmLink(ctx context.Context, f fault) bool {
	link := r.kubelet.links[podName(f.agent)]
	wanted := map[string]condition{cutLink: {cut: true}, loseMessages: {deaf: true}, slowLink: {delay: f.long / 8}}
	if f.kind == severLink {
		r.begins(f)
		link.Sever()
		return true
	}
	if !link.Impair(wanted[f.kind]) {
		return false
	}
	r.begins(f)
	pause(ctx, f.long)
	link.Restore()
	return true
}

// harmAPIServer takes the API server away for at most half of an agent's lease; longer is another matter, and stops all work.
func (r *Run) harmAPIServer(ctx context.Context, f fault) bool {
	if !r.apiServer.TryLock() {
		return false
	}
	defer r.apiServer.Unlock()
	r.begins(f)
	down, up := "kill", "restart"
	if f.kind == suspendAPIServer {
		down, up = "pause", "resume"
	}
	r.devcluster(down, "kube-apiserver")
	pause(ctx, min(f.long, agentLease/2))
	r.devcluster(up, "kube-apiserver")
	return true
}

// devcluster runs the program that made the cluster. It must work, or nothing that follows proves anything.
func (r *Run) devcluster(arguments ...string) {
	output, err := exec.Command("bin/devcluster", append(arguments, "--data", os.Getenv("DEVCLUSTER_DATA"))...).CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("devcluster %s: %v: %s", strings.Join(arguments, " "), err, output))
	}
}

func (r *Run) deleteLease(ctx context.Context, f fault) bool {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	r.begins(f)
	return r.api.Delete(limited, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}}) == nil
}

// deleteAgent deletes an Agent object, and with it what the operator has stored about the process that is linked. The pod stays.
func (r *Run) deleteAgent(ctx context.Context, f fault) bool {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	r.begins(f)
	return r.api.Delete(limited, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(f.agent)}}) == nil
}

func (r *Run) harmPod(ctx context.Context, f fault) bool {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if f.kind == forceDeletePod && !r.hasShortLease(limited, f.agent) {
		return false // every new leader would wait for the pod for a minute, and nearly nothing else would happen
	}
	pod := &corev1.Pod{}
	if err := r.api.Get(limited, client.ObjectKey{Namespace: namespace, Name: podName(f.agent)}, pod); err != nil || pod.DeletionTimestamp != nil {
		return false
	}
	r.begins(f)
	switch f.kind {
	case deletePod:
		return r.api.Delete(limited, pod) == nil
	case forceDeletePod:
		r.kubelet.Orphan(pod.UID, f.long)
		return r.api.Delete(limited, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}) == nil
	}
	return r.relabel(ctx, pod, f)
}

// relabel hides a pod from its controller, or from the operator too, and shows it again.
func (r *Run) relabel(ctx context.Context, pod *corev1.Pod, f fault) bool {
	label, value := v1alpha1.LabelAgentType, `"quarantine"`
	if f.report {
		label, value = v1alpha1.LabelSwarm, "null"
	}
	if r.setLabel(ctx, pod, label, value) != nil {
		return false
	}
	pause(ctx, f.long)
	persist(r.background, func(ctx context.Context) error {
		return client.IgnoreNotFound(r.setLabel(ctx, pod, label, fmt.Sprintf("%q", pod.Labels[label])))
	})
	return true
}

// setLabel changes a label of a pod, unless another pod has its name.
func (r *Run) setLabel(ctx context.Context, pod *corev1.Pod, label, value string) error {
	found := &corev1.Pod{}
	if err := r.api.Get(ctx, client.ObjectKeyFromObject(pod), found); err != nil || found.UID != pod.UID {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{%q:%s}}}`, found.ResourceVersion, label, value)
	return r.api.Patch(ctx, found, client.RawPatch(types.MergePatchType, patch))
}

// harmOperator harms the leader, or any replica while none leads.
func (r *Run) harmOperator(ctx context.Context, f fault) bool {
	victim := r.leader(ctx)
	process := victim.current()
	if process == nil {
		return false
	}
	r.begins(f)
	switch f.kind {
	case killLeader:
		process.Kill()
	case stopLeader:
		process.Terminate()
	case restartOperators:
		for _, one := range r.operators {
			one.current().Kill()
		}
	case loseAnswers:
		victim.loses.Store(true)
		pause(ctx, min(f.long, time.Second))
		victim.loses.Store(false)
	case suspendLeader:
		if process.Suspend() != nil {
			return false
		}
		pause(ctx, f.long)
		process.Resume(func() {})
	}
	return true
}

// leader is the operator that holds the Lease, or the first one.
func (r *Run) leader(ctx context.Context) *Operator {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lease := &coordinationv1.Lease{}
	if r.api.Get(limited, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease) == nil && lease.Spec.HolderIdentity != nil {
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		for _, one := range r.operators {
			if one.name == name {
				return one
			}
		}
	}
	return r.operators[0]
}

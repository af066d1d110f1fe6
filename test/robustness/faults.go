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

// InjectFaults injects faults until the context ends, and returns when all of them are over.
func (r *Run) InjectFaults(ctx context.Context, planned *schedule) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		f := planned.next()
		pause(ctx, f.after)
		if ctx.Err() != nil {
			return
		}
		group.Go(func() {
			if r.inject(ctx, f) {
				return
			}
			fmt.Fprintln(r.log, "not injected:", f)
		})
	}
}

// inject injects one fault. It reports whether the fault began: there may be no target for it.
func (r *Run) inject(ctx context.Context, f fault) bool {
	switch f.kind {
	case killAgent, suspendAgent:
		return r.faultAgent(ctx, f)
	case cutLink, severLink, slowLink, loseMessages:
		return r.faultLink(ctx, f)
	case killAPIServer, suspendAPIServer:
		return r.faultAPIServer(ctx, f)
	case deleteLease:
		return r.deleteLease(ctx, f)
	case forceDeletePod, deletePod, relabelPod:
		return r.faultPod(ctx, f)
	case deleteAgent:
		return r.deleteAgent(ctx, f)
	case changeLease:
		return r.changeLease(ctx, f)
	}
	return r.faultOperator(ctx, f)
}

// recordFault records a fault before its effects can be in the journal.
func (r *Run) recordFault(f fault) {
	r.journal.Write(Event{Kind: eventFault, Note: f.String()})
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

// FindMissing returns a kind that happened less often than wanted, if there is one.
func (c *faultCounts) FindMissing(wanted int) (kind string, found bool) {
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

func (r *Run) faultAgent(ctx context.Context, f fault) bool {
	agent := r.kubelet.Agent(podName(f.agent))
	if agent == nil {
		return false
	}
	r.recordFault(f)
	if f.kind == killAgent {
		agent.kill(f.report)
		return true
	}
	return agent.suspend(ctx, f.duration)
}

func (r *Run) faultLink(ctx context.Context, f fault) bool {
	link := r.kubelet.links[podName(f.agent)]
	conditions := map[string]linkCondition{cutLink: {cut: true}, loseMessages: {dropsFromOperator: true}, slowLink: {delay: f.duration / 8}}
	if f.kind == severLink {
		r.recordFault(f)
		link.Sever()
		return true
	}
	if !link.Impair(conditions[f.kind]) {
		return false
	}
	r.recordFault(f)
	pause(ctx, f.duration)
	link.Restore()
	return true
}

// faultAPIServer makes the API server unavailable for at most half of an agent's lease; a longer outage would stop all work.
func (r *Run) faultAPIServer(ctx context.Context, f fault) bool {
	if !r.apiServer.TryLock() {
		return false
	}
	defer r.apiServer.Unlock()
	r.recordFault(f)
	down, up := "kill", "restart"
	if f.kind == suspendAPIServer {
		down, up = "pause", "resume"
	}
	r.devcluster(down, "kube-apiserver")
	pause(ctx, min(f.duration, agentLease/2))
	r.devcluster(up, "kube-apiserver")
	return true
}

// devcluster runs the program that created the cluster. It must succeed, or the run proves nothing.
func (r *Run) devcluster(arguments ...string) {
	output, err := exec.Command("bin/devcluster", append(arguments, "--data", os.Getenv("DEVCLUSTER_DATA"))...).CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("devcluster %s: %v: %s", strings.Join(arguments, " "), err, output))
	}
}

func (r *Run) deleteLease(ctx context.Context, f fault) bool {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	r.recordFault(f)
	return r.api.Delete(limited, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}}) == nil
}

// deleteAgent deletes an Agent object, and with it what the operator has stored about the process that is linked. The pod stays.
func (r *Run) deleteAgent(ctx context.Context, f fault) bool {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	r.recordFault(f)
	return r.api.Delete(limited, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(f.agent)}}) == nil
}

func (r *Run) faultPod(ctx context.Context, f fault) bool {
	limited, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if f.kind == forceDeletePod && !r.hasShortLease(limited, f.agent) {
		return false // every new leader would wait a minute for the pod, and little else would happen
	}
	pod := &corev1.Pod{}
	if err := r.api.Get(limited, client.ObjectKey{Namespace: namespace, Name: podName(f.agent)}, pod); err != nil ||
		pod.DeletionTimestamp != nil {
		return false
	}
	r.recordFault(f)
	switch f.kind {
	case deletePod:
		return r.api.Delete(limited, pod) == nil
	case forceDeletePod:
		r.kubelet.OrphanProcess(pod.UID, f.duration)
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
	pause(ctx, f.duration)
	persist(r.backgroundCtx, func(ctx context.Context) error {
		return client.IgnoreNotFound(r.setLabel(ctx, pod, label, fmt.Sprintf("%q", pod.Labels[label])))
	})
	return true
}

// setLabel changes a label of a pod, unless another pod has its name.
func (r *Run) setLabel(ctx context.Context, pod *corev1.Pod, label, value string) error {
	current := &corev1.Pod{}
	if err := r.api.Get(ctx, client.ObjectKeyFromObject(pod), current); err != nil || current.UID != pod.UID {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{%q:%s}}}`, current.ResourceVersion, label, value)
	return r.api.Patch(ctx, current, client.RawPatch(types.MergePatchType, patch))
}

// faultOperator injects a fault into the leader, or into any replica while none leads.
func (r *Run) faultOperator(ctx context.Context, f fault) bool {
	victim := r.leader(ctx)
	process := victim.current()
	if process == nil {
		return false
	}
	r.recordFault(f)
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
		victim.losesAnswers.Store(true)
		pause(ctx, min(f.duration, time.Second))
		victim.losesAnswers.Store(false)
	case suspendLeader:
		if process.Suspend() != nil {
			return false
		}
		pause(ctx, f.duration)
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
